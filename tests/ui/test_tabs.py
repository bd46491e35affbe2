"""Several tabs of one browser, and the token between them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from idkmesh.service_runtime import ServiceLimits
from tests.ui.support import OTHER_TOKEN, REFUSED, STARTED, TOKEN, live, running, stream_held, until, verdict

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route

    from tests.ui.support import Tower, Watched


def until_streams(tower: Tower, page: Page, count: int) -> None:
    """Wait until this many streams are open."""
    until(page, lambda: tower.streams == count)


def test_one_stream_for_three_tabs(watched: Watched, tower: Tower) -> None:
    """CT-8.7: three tabs share one stream, all see each event, and another leads when the leader closes."""
    pages = [watched.ready(tower, "events")]
    for _ in range(2):
        page = watched.open(f"{tower.origin}/#/events")
        live(page)
        pages.append(page)
    live(pages[0])
    assert tower.streams == 1
    tower.emit("test.first", {})
    for page in pages:
        expect(page.locator(".event").first).to_contain_text("test.first")
    opened = tower.server.status()["operations"]["streams"]["opened_total"]
    assert opened == 1
    pages.pop(0).close()
    until_streams(tower, pages[0], 1)
    tower.emit("test.second", {})
    for page in pages:
        expect(page.locator(".event").first).to_contain_text("test.second")
        expect(page.locator(".event")).to_have_count(STARTED + 2)
        live(page)
    assert tower.streams == 1


def test_only_the_leader_asks(watched: Watched, tower: Tower) -> None:
    """CT-8.7: three tabs ask for the status as often as one does."""
    pages = [watched.ready(tower), *(watched.open(tower.origin) for _ in range(2))]
    for page in pages:
        verdict(page, "Ready")
    asked: list[str] = []
    for page in pages:
        page.on("request", lambda request: asked.append(request.url))
    began = time.monotonic()
    pages[0].wait_for_timeout(2500)
    assert 1 <= sum(url.endswith("/api/v1/status") for url in asked) <= time.monotonic() - began + 1.5


def test_visible_tab_takes_over_from_a_hidden_one(watched: Watched, tower: Tower) -> None:
    """CT-8.7: browsers slow hidden tabs down, so a visible one takes the lead, and the stream goes on without loss."""
    first = watched.ready(tower, "events")
    second = watched.open(f"{tower.origin}/#/events")
    live(second)
    first.evaluate("Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })")
    with second.expect_request("**/api/v1/status"):
        tower.emit("test.handover", {})
    for page in (first, second):
        expect(page.locator(".event").first).to_contain_text("test.handover")
        live(page)
    until_streams(tower, second, 1)
    assert tower.server.status()["operations"]["streams"]["opened_total"] == 2


def test_token_leaves_the_address(watched: Watched, tower: Tower) -> None:
    """CT-8.7, CT-2.6, SEC-04: the token is in sessionStorage alone: not in address, history, text, localStorage."""
    page = watched.ready(tower)
    assert page.url == f"{tower.origin}/"
    for route in ("overview", "events", "inspect", "api"):
        page.goto(f"{tower.origin}/#/{route}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert TOKEN not in page.content()
        assert TOKEN not in page.url
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_token_leaves_the_address_before_anything_is_loaded(watched: Watched, tower: Tower) -> None:
    """CT-8.7, CT-8.1: a file that is refused leaves no token in the address nor loses it; Retry-After is waited for."""
    watched.allow(REFUSED, "Refused to apply style")
    page = watched.context.new_page()
    asked: list[float] = []

    def refuse(route: Route) -> None:
        asked.append(time.monotonic())
        if len(asked) > 2:
            route.continue_()
        else:
            error = {"error": {"code": "overloaded", "message": ""}}
            route.fulfill(status=503, headers={"Retry-After": "2"}, json=error)

    page.route("**/static/css/base.css", refuse)
    page.goto(tower.link)
    expect(page).to_have_url(f"{tower.origin}/")
    assert len(asked) < 3
    verdict(page, "Ready")
    assert asked[2] - asked[1] > 2


def test_browser_without_storage_is_told(watched: Watched, tower: Tower) -> None:
    """CT-8.1: an error of the page itself is said, and no new load is tried for it."""
    watched.allow("denied")
    page = watched.context.new_page()
    page.add_init_script("Object.defineProperty(window, 'sessionStorage', { get() { throw new Error('denied'); } })")
    loads: list[str] = []
    page.on("request", lambda request: loads.append(request.url))
    page.goto(tower.link)
    expect(page.locator("#loading")).to_contain_text("does not work in this browser")
    page.wait_for_timeout(1500)
    assert loads.count(f"{tower.origin}/") <= 1
    assert TOKEN not in page.url


OLD = f"sessionStorage.length || sessionStorage.setItem('idkmesh-token', '{OTHER_TOKEN}')"


def test_old_token_is_replaced_by_the_proven_one(watched: Watched, tower: Tower) -> None:
    """CT-8.7: a tab with a token of before a restart gets the one in force, at its start and at any refusal later."""
    watched.allow(REFUSED)
    watched.ready(tower)
    old = watched.context.new_page()
    old.add_init_script(OLD)
    old.goto(f"{tower.origin}/#/events")
    expect(old.locator(".event")).to_have_count(STARTED)
    assert old.evaluate("Object.values(sessionStorage)") == [TOKEN]
    old.evaluate("token => sessionStorage.setItem('idkmesh-token', token)", OTHER_TOKEN)
    old.evaluate("location.hash = '#/api'")
    expect(old.locator("summary", has_text="/api/v1/status")).to_be_visible()
    assert old.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_take_over_from_a_silent_leader(watched: Watched, tower: Tower) -> None:
    """CT-8.7: a visible tab takes the lead from one that says nothing any more."""
    first = watched.ready(tower, "events")
    second = watched.open(f"{tower.origin}/#/events")
    live(second)
    leads = "import('/static/state.js').then(({ state }) => state.leader)"
    assert first.evaluate(leads) is True
    first.evaluate("BroadcastChannel.prototype.postMessage = () => {}")
    until(second, lambda: second.evaluate(leads) and not first.evaluate(leads))
    until_streams(tower, second, 1)
    live(second)


def test_new_leader_leaves_no_gap_in_the_others(watched: Watched, tmp_path: Path) -> None:
    """CT-8.7: what a new leader has read from the list is read by the other tabs too."""
    watched.allow(REFUSED)
    with running(tmp_path / "events.sqlite3", limits=ServiceLimits(max_sse_clients=1)) as tower:
        with stream_held(tower):
            first = watched.ready(tower, "events")
            expect(first.locator(".live")).to_contain_text("No free stream")
            for number in range(3):
                tower.emit("test.gap", {}, subject=str(number))
            hide = "Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })"
            first.evaluate(f"{hide}; document.dispatchEvent(new Event('visibilitychange'))")
            second = watched.open(f"{tower.origin}/#/events")
            expect(second.locator(".event", has_text="test.gap")).to_have_count(3)
            expect(first.locator(".event", has_text="test.gap")).to_have_count(3)
        watched.context.close()


def test_new_tab_asks_a_living_one(watched: Watched, tower: Tower) -> None:
    """CT-8.7: a tab that is opened without the token gets it from one that has it."""
    watched.ready(tower)
    second = watched.open(tower.origin)
    verdict(second, "Ready")
    assert second.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_nothing_is_blank_before_the_link_is_asked_for(watched: Watched, tower: Tower) -> None:
    """CT-8.7: while a tab without a token waits whether another has one, it says so: no frame is empty."""
    watched.context.add_init_script("""
        window.blank = 0;
        requestAnimationFrame(function look() {
            const parts = [...document.querySelectorAll("#main > *")].filter(one => one.localName !== "noscript");
            if (parts.length && !parts.some(one => getComputedStyle(one).visibility === "visible")) blank += 1;
            requestAnimationFrame(look);
        });
    """)
    page = watched.open(tower.origin)
    expect(page.get_by_role("heading", level=1, name="Link needed")).to_be_visible()
    expect(page.locator(".asking")).to_be_hidden()
    assert page.evaluate("blank") == 0


def test_link_is_asked_for(watched: Watched, tower: Tower) -> None:
    """CT-8.7: without any token the person is asked; nonsense is called so, the pasted link opens the page."""
    page = watched.open(f"{tower.origin}/#/api")
    expect(page.get_by_role("heading", level=1)).to_have_text("Link needed")
    field = page.get_by_label("Link or token")
    field.fill("nonsense")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("neither the link nor a token")
    expect(field).to_have_value("nonsense")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    assert page.locator("nav a[href]").count() == 0
    field.fill(tower.link)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("API")
    expect(page.locator("#chip")).to_have_text("Updated each second")
    assert page.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_wrong_token_is_forgotten(watched: Watched, tower: Tower) -> None:
    """CT-8.7: a refused token is forgotten and the link is asked for."""
    watched.allow(REFUSED)
    page = watched.open(f"{tower.origin}/#token={OTHER_TOKEN}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Link needed")
    assert page.evaluate("sessionStorage.length") == 0


def test_accepted_token_replaces_another_one(watched: Watched, tower: Tower) -> None:
    """CT-8.7: a tab that still has an old token takes the one that the service has accepted."""
    watched.allow(REFUSED)
    first = watched.ready(tower)
    old = watched.open(tower.origin)
    verdict(old, "Ready")
    old.evaluate("token => Object.keys(sessionStorage).forEach(key => sessionStorage.setItem(key, token))", OTHER_TOKEN)
    first.reload()
    verdict(first, "Ready")
    old.bring_to_front()
    expect(old.locator("#chip")).to_have_text("Updated each second")
    until(old, lambda: old.evaluate("Object.values(sessionStorage)") == [TOKEN])


def test_another_token_after_a_restart(watched: Watched, tmp_path: Path) -> None:
    """CT-8.7, CT-8.9: after a restart with another token all tabs ask; one new link opens them all."""
    watched.allow(REFUSED, r"Failed to load resource: net::ERR_")
    store = tmp_path / "events.sqlite3"
    with running(store) as tower:
        pages = [watched.ready(tower), watched.open(tower.origin)]
        verdict(pages[1], "Ready")
        port = tower.port
    verdict(pages[0], "No answer")
    with running(store, port=port, token=OTHER_TOKEN) as tower:
        for page in pages:
            expect(page.get_by_role("heading", level=1)).to_have_text("Link needed")
            assert page.evaluate("sessionStorage.length") == 0
        pages[1].evaluate("link => { location.href = link }", tower.link)
        for page in pages:
            verdict(page, "Ready")
