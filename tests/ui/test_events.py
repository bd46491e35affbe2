"""The timeline: live, grouped, filtered, paused, paged, and one event whole."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.ui.support import REFUSED, STARTED, WAIT, live, until, verdict

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.ui.support import Tower, Watched


def committed(tower: Tower, count: int) -> None:
    """Wait until the store has this many events."""
    deadline = time.monotonic() + WAIT / 1000
    while tower.server.events.snapshot().newest < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def emit_many(tower: Tower, kind: str, count: int, *, subject: str | None = None) -> None:
    """Emit events, no faster than the queue takes them."""
    before = tower.server.events.snapshot().newest
    for number in range(count):
        if number % 100 == 99:
            committed(tower, before + number - 400)
        tower.emit(kind, {"number": number}, subject=subject)


DELAYS = """() => {
    window.delays = [];
    const drawn = new Set([...document.querySelectorAll(".event")].map(row => row.dataset.id));
    new MutationObserver(() => {
        for (const row of document.querySelectorAll(".event")) {
            if (!drawn.has(row.dataset.id)) {
                drawn.add(row.dataset.id);
                delays.push(Date.now() - Date.parse(row.querySelector("time").dateTime));
            }
        }
    }).observe(document.querySelector(".timeline"), { childList: true, subtree: true });
}"""


def test_live_within_a_second(watched: Watched, tower: Tower) -> None:
    """CT-8.4: an event is on the page within a second of its commit."""
    page = watched.ready(tower, "events")
    live(page)
    expect(page.locator(".event")).to_have_count(STARTED)
    page.evaluate(DELAYS)
    for number in range(5):
        tower.emit("test.live", {"number": number}, subject=f"s{number}")
        expect(page.locator(".event .text").first).to_have_text(f's{number} {{"number":{number}}}')
    delays = page.evaluate("delays")
    assert len(delays) == 5
    assert max(delays) < 1000, delays


def test_grouped_and_folded(watched: Watched, tower: Tower) -> None:
    """CT-8.4: events stand under day and hour, and many of a kind in a row are one row that unfolds."""
    emit_many(tower, "test.burst", 30)
    committed(tower, STARTED + 30)
    page = watched.ready(tower, "events")
    expect(page.locator(".hour h2").first).to_have_text(re.compile(r"^Today, \d\d:00 to \d\d:00\d+ events$"))
    fold = page.locator("button.fold")
    expect(fold).to_have_text(re.compile("^29 more like this, "))
    fold.click()
    expect(page.locator(".event", has_text="test.burst")).to_have_count(30)
    fold.click()
    expect(page.locator(".event", has_text="test.burst")).to_have_count(1)


def test_filters(watched: Watched, tower: Tower) -> None:
    """CT-8.4: type, source, subject and text choose events, how many are hidden is said, and it stays so."""
    tower.emit("test.one", {"word": "needle"}, subject="left", source="/a")
    tower.emit("test.two", {"word": "hay"}, subject="right", source="/b")
    committed(tower, STARTED + 2)
    page = watched.ready(tower, "events")
    rows = page.locator(".event")
    expect(rows).to_have_count(STARTED + 2)
    page.get_by_label("Search").fill("NEEDLE")
    expect(rows).to_have_count(1)
    expect(page.locator("#summary")).to_have_text(f"1 of {STARTED + 2} events match")
    page.get_by_label("Search").fill("")
    for name, choice, found in (("Type", "test.two", "hay"), ("Source", "/a", "needle"), ("Subject", "right", "hay")):
        page.get_by_label(name).select_option(choice)
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text(found)
        page.get_by_label(name).select_option("")
    page.get_by_label("Type").select_option("test.two")
    page.get_by_label("Search").fill("nothing has this")
    expect(page.locator("#empty")).to_contain_text("No event that is here matches.")
    page.get_by_role("link", name="API").click()
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_label("Search")).to_have_value("nothing has this")
    expect(page.get_by_label("Type")).to_have_value("test.two")


def test_pause_counts_what_waits(watched: Watched, tower: Tower) -> None:
    """CT-8.4: paused, the rows stay and what waits is counted; going on shows it."""
    page = watched.ready(tower, "events")
    live(page)
    page.keyboard.press("p")
    expect(page.locator(".live")).to_have_text("Paused, 0 events wait")
    tower.emit("test.a", {})
    tower.emit("test.b", {})
    expect(page.locator(".live")).to_have_text("Paused, 2 events wait")
    expect(page.locator(".event")).to_have_count(STARTED)
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".event")).to_have_count(STARTED + 2)
    live(page)


FLOOD = """async size => {
    const { feed, addLive } = await import("/static/feed.js");
    const newest = feed.events[0];
    addLive(Array.from({ length: size }, (_, index) => {
        const sequence = String(Number(newest.sequence) + index + 1).padStart(12, "0");
        return { ...newest, type: "test.flood", sequence, id: `${newest.epoch}.${sequence}` };
    }));
}"""


def test_pause_outlives_a_flood(watched: Watched, tower: Tower) -> None:
    """CT-8.4: paused, the rows stay and all that waits is counted, also when more arrives than the page keeps."""
    page = watched.ready(tower, "events")
    live(page)
    page.keyboard.press("p")
    shown = page.locator(".event").all_inner_texts()
    page.evaluate(FLOOD, 2100)
    expect(page.locator(".live")).to_have_text("Paused, 2,100 events wait")
    assert page.locator(".event").all_inner_texts() == shown
    expect(page.locator("#older")).to_be_hidden()
    page.keyboard.press("p")
    expect(page.locator("#summary")).to_have_text("2,000 events")
    expect(page.locator(".event", has_text="Settings loaded")).to_have_count(0)


def test_deep_link_outlives_a_refusal(watched: Watched, tower: Tower) -> None:
    """CT-8.9: an event that was refused for a moment is not called missing, and is shown as soon as it can be read."""
    watched.allow(REFUSED)
    page = watched.context.new_page()
    error = {"code": "overloaded", "message": "Every place is taken."}
    page.route("**/api/v1/events?*", lambda route: route.fulfill(status=503, json={"error": error}))
    tower.emit("test.wanted", {})
    committed(tower, STARTED + 1)
    page.goto(tower.link)
    verdict(page, "Ready")
    epoch = tower.server.events.snapshot().epoch
    page.evaluate("route => { location.hash = route }", f"#/events/{epoch}.{STARTED + 1}")
    heading = page.get_by_role("complementary").get_by_role("heading", level=2)
    expect(heading).to_have_text("Not read yet")
    page.unroute_all()
    expect(heading).to_have_text("test.wanted")


def test_filter_hides_nothing_from_the_newest(watched: Watched, tower: Tower) -> None:
    """CT-8.4: what was filtered out is not new when it comes back; the count is announced when typing has ended."""
    page = watched.ready(tower, "events")
    live(page)
    field = page.get_by_label("Search")
    field.fill("settings loaded")
    field.fill("configuration")
    expect(page.locator("#summary")).to_have_text(f"1 of {STARTED} events match")
    expect(page.locator("#said")).to_have_text(f"1 of {STARTED} events match")
    field.fill("")
    expect(page.locator(".event")).to_have_count(STARTED)
    expect(page.locator(".event.fresh")).to_have_count(0)


def test_deep_link(watched: Watched, tower: Tower) -> None:
    """CT-8.4: an event has an address of its own, with its JSON and a command that fetches it."""
    tower.emit("test.deep", {"answer": 42})
    committed(tower, STARTED + 1)
    epoch = tower.server.events.snapshot().epoch
    page = watched.ready(tower, f"events/{epoch}.{STARTED + 1}")
    detail = page.get_by_role("complementary")
    expect(detail.get_by_role("heading", level=2)).to_have_text("test.deep")
    expect(detail).to_contain_text('"answer": 42')
    detail.get_by_role("button", name="Copy as curl").click()
    expect(detail.get_by_role("button", name="Copied")).to_be_visible()
    expect(page.locator("#said")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith(f"'{tower.origin}/api/v1/events?limit=1&cursor={epoch}.{STARTED:012}'")
    detail.get_by_role("button", name="Whole document").click()
    expect(detail).to_contain_text('"specversion": "1.0"')
    detail.get_by_role("button", name="Copy JSON").click()
    until(page, lambda: page.evaluate("navigator.clipboard.readText()").startswith("{"))
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["data"] == {"answer": 42}
    detail.get_by_role("button", name="Copy link").click()
    link = f"{tower.origin}/#/events/{epoch}.{STARTED + 1:012}"
    until(page, lambda: page.evaluate("navigator.clipboard.readText()") == link)


def test_an_event_that_is_not_there(watched: Watched, tower: Tower) -> None:
    """CT-8.4: a link to an event that is not there says why."""
    watched.allow("status of 400")
    page = watched.ready(tower)
    for name, words in (("0" * 16 + ".1", "another store"), ("nonsense", "no id of an event")):
        page.evaluate("route => { location.hash = route }", f"#/events/{name}")
        expect(page.get_by_role("complementary")).to_contain_text(words)


def test_keys_move_open_and_close(watched: Watched, tower: Tower) -> None:
    """CT-8.8: j and k move, Enter opens and gives the event the focus, Escape closes and the focus is where it was."""
    page = watched.ready(tower, "events")
    rows = page.locator(".event")
    expect(rows).to_have_count(STARTED)
    page.keyboard.press("j")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    for _ in range(STARTED - 2):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("Settings loaded")
    expect(page.get_by_role("complementary")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    expect(rows.nth(STARTED - 1)).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()


def test_focus_stays_when_events_arrive(watched: Watched, tower: Tower) -> None:
    """CT-8.8: a row with the focus keeps it while newer events arrive and fold it in."""
    tower.emit("test.same", {"number": 0})
    committed(tower, STARTED + 1)
    page = watched.ready(tower, "events")
    live(page)
    page.keyboard.press("j")
    held = page.locator(".event", has_text='{"number":0}')
    expect(held).to_be_focused()
    emit_many(tower, "test.same", 20)
    expect(page.locator("button.fold")).to_have_text(re.compile("^19 more like this"))
    expect(page.locator(".event").nth(1)).to_be_focused()


def test_older_events_and_bounded_memory(watched: Watched, tower: Tower) -> None:
    """CT-8.4: older events come by pages; the page keeps 2,000, whatever arrives."""
    emit_many(tower, "test.old", 1992 - STARTED)
    committed(tower, 1992)
    page = watched.ready(tower, "events")
    expect(page.locator("#summary")).to_have_text("100 events")
    expect(page.locator(".end")).to_have_text("100 of 1,992 kept events are here.")
    page.get_by_role("button", name="Load older").click()
    expect(page.locator("#summary")).to_have_text("300 events")
    while page.locator("#older").is_visible():
        before = page.locator("#summary").inner_text()
        page.locator("#older").click()
        expect(page.locator("#summary")).not_to_have_text(before)
    expect(page.locator("#summary")).to_have_text("1,992 events")
    expect(page.locator(".end")).to_have_text("This is the oldest event that is kept.")
    emit_many(tower, "test.new", 50)
    expect(page.locator(".event").first).to_contain_text("test.new")
    expect(page.locator("#summary")).to_have_text("2,000 events")
    expect(page.locator(".end")).to_contain_text("This page keeps 2,000 events.")


HOSTILE = {
    "image": "<img src=x onerror=alert(1)>",
    "script": "</script><script>alert(1)</script>",
    "direction": "abc\u202etxt.exe",
    "link": "javascript:alert(1)",
    "long": "x" * 60_000,
}


def test_hostile_data_is_text(watched: Watched, tower: Tower) -> None:
    """CT-8.1, SEC-08: whatever stands in an event is shown as text: nothing runs, no element is made of it."""
    tower.emit('<img src=x onerror="alert(1)">', HOSTILE, subject="<b>bold</b>", source="javascript:alert(1)")
    committed(tower, STARTED + 1)
    page: Page = watched.ready(tower, "events")
    row = page.locator(".event").first
    expect(row.locator(".title")).to_have_text('<img src=x onerror="alert(1)">')
    expect(row).to_contain_text("<b>bold</b>")
    row.click()
    detail = page.get_by_role("complementary")
    for value in ("image", "script", "link"):
        expect(detail).to_contain_text(json.dumps(HOSTILE[value]))
    expect(detail).to_contain_text("abc\u27e8U+202E\u27e9txt.exe")
    assert "\u202e" not in page.content()
    assert page.locator("main img, main script, main b, a[href^=javascript]").count() == 0
    page.goto(f"{tower.origin}/#/overview")
    expect(page.locator(".latest")).to_contain_text("<img src=x")
    assert page.locator("main img").count() == 0
