"""What everybody can read: both schemes, narrow screens, little motion, assistive technology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ui.support import STARTED, running, watching

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
ROUTES = ("overview", "events", "event", "dependencies", "inspect", "api", "keys", "stale", "locked")


def open_everything(page: Page, route: str, origin: str) -> None:
    """Bring a page to the state in which it has most on it."""
    if route == "event":
        page.goto(f"{origin}/#/events")
        page.locator(".event").first.click()
        expect(page.get_by_role("complementary")).to_contain_text("datadigest")
    elif route == "inspect":
        page.goto(f"{origin}/#/inspect")
        page.get_by_role("button", name="Two hosts").click()
        expect(page.locator("#offending")).to_be_visible()
    elif route == "api":
        page.goto(f"{origin}/#/api")
        page.locator("summary").first.click()
        page.locator("summary", has_text="/api/v1/status").click()
        page.locator(".trial").last.get_by_role("button", name="Ask now").click()
        expect(page.locator(".outcome")).to_be_visible()
    elif route == "keys":
        page.goto(f"{origin}/#/events")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
    elif route == "locked":
        page.unroute_all()
        page.evaluate("sessionStorage.clear()")
        page.reload()
        expect(page.get_by_label("Link or token")).to_be_visible()
    elif route == "stale":
        page.route("**/api/v1/status", lambda answer: answer.abort())
        expect(page.locator("body")).to_have_attribute("data-stale", "")
    else:
        page.goto(f"{origin}/#/{route}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_no_barrier_that_axe_finds(browser: Browser, tmp_path: Path, scheme: Scheme, width: int) -> None:
    """CT-8.8: axe-core finds nothing on any page, in either scheme, wide or narrow, grey figures included."""
    found: dict[str, str] = {}
    looks = {"color_scheme": scheme, "reduced_motion": "reduce", "viewport": {"width": width, "height": 740}}
    with running(tmp_path / "events.sqlite3") as tower, watching(browser, **looks) as watched:
        watched.allow("net::ERR_FAILED")
        page = watched.ready(tower)
        for route in ROUTES:
            open_everything(page, route, tower.origin)
            results = Axe().run(page)
            if results.violations_count:
                found[route] = results.generate_report()
            page.keyboard.press("Escape")
    assert not found, "\n".join(f"{route}: {report}" for route, report in found.items())


# What can be pressed and is less than 24 px high or wide (WCAG 2.5.8); a box to tick is pressed by its label too.
SMALL = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
    .map(one => [one.outerHTML.slice(0, 80), (one.closest("label.choice") ?? one).getBoundingClientRect()])
    .filter(([, { width, height }]) => width > 0 && (width < 23.9 || height < 23.9)).map(([html]) => html)"""

INSIDE = """([inner, outer]) => {
    const [one, other] = [inner, outer].map(name => document.querySelector(name).getBoundingClientRect());
    return one.top >= other.top && one.bottom <= other.bottom && one.left >= other.left && one.right <= other.right;
}"""


def test_what_matters_is_in_sight(browser: Browser, tmp_path: Path) -> None:
    """CT-8.5, CT-8.8: the marked byte, the verdict, the close button, the top of a page, what has the focus."""
    lines = "".join(f"X-{number}: v\n" for number in range(60))
    with running(tmp_path / "events.sqlite3") as tower:
        for number in range(40):
            tower.emit("test.row", {}, subject=str(number))
        for width in (1280, 360):
            with watching(browser, viewport={"width": width, "height": 700}) as watched:
                page = watched.ready(tower)
                page.evaluate("scrollTo(0, 1500)")
                page.get_by_role("link", name="Inspect").click()
                expect(page.get_by_role("heading", level=1)).to_have_text("Inspect a request")
                assert page.evaluate("scrollY") == 0
                expect(page.locator("main")).to_be_focused()
                page.get_by_role("button", name="Inspect", exact=True).click()
                expect(page.locator("#result")).to_contain_text("nothing to inspect yet")
                page.get_by_label("Raw request").fill(f"GET / HTTP/1.1\nHost: localhost\n{lines}X-Bad : v\n\n")
                page.get_by_role("button", name="Inspect", exact=True).click()
                expect(page.locator("#offending")).to_be_attached()
                assert page.evaluate(INSIDE, ["#offending", ".bytes"])
                expect(page.locator(".verdict-card h2")).to_be_in_viewport()
                expect(page.locator("#said")).to_contain_text("Refused.")
                page.evaluate("location.hash = '#/events'")
                expect(page.locator(".event")).to_have_count(40 + STARTED)
                for _ in range(30):
                    page.keyboard.press("j")
                for _ in range(28):
                    page.keyboard.press("k")
                    assert page.evaluate(COVERED) is False
                page.keyboard.press("Enter")
                expect(page.locator(".detail h2")).to_be_in_viewport()
                assert page.evaluate(INSIDE, [".detail .close", ".detail"])
                order = page.evaluate("[...document.querySelector('.split').children].map(one => one.className)")
                assert order[0].startswith("detail") is (width == 360)


COVERED = """() => {
    const bar = document.querySelector(".bar").getBoundingClientRect();
    return document.activeElement.getBoundingClientRect().top < bar.bottom;
}"""


def test_table_stays_one_on_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: at 360 px the refusals are laid out in another way, and are a table with heads all the same."""
    with (
        running(tmp_path / "events.sqlite3") as tower,
        watching(browser, viewport={"width": 360, "height": 740}, forced_colors="active") as watched,
    ):
        watched.allow("status of 404")
        page = watched.ready(tower)
        page.evaluate("fetch('/nowhere')")
        table = page.get_by_role("table")
        expect(table.get_by_role("row")).to_have_count(2)
        expect(table.get_by_role("columnheader")).to_have_count(3)
        expect(table.get_by_role("rowheader")).to_have_count(1)
        expect(table.get_by_role("cell")).to_have_count(2)
        colours = page.locator(".lamp .sign").evaluate(
            "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one.firstElementChild).stroke]"
        )
        assert colours[0] != colours[1]  # in the browser's own colours a sign is a sign


def test_narrow_screens_do_not_scroll_sideways(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: at 360 px every page fits its width, whatever an event says."""
    narrow = {"width": 360, "height": 740}
    with running(tmp_path / "events.sqlite3") as tower, watching(browser, viewport=narrow) as watched:
        tower.emit("test." + "w" * 200, {"word": "x" * 5000}, subject="s" * 200)
        watched.allow("net::ERR_FAILED")
        page = watched.ready(tower)
        for route in ROUTES:
            open_everything(page, route, tower.origin)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, route
            assert page.evaluate(SMALL) == [], route
            page.keyboard.press("Escape")


def test_the_bar_fits_at_every_width(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: wherever the navigation goes beside the rest or below it, nothing of the bar is out of sight."""
    with running(tmp_path / "events.sqlite3") as tower, watching(browser) as watched:
        page = watched.ready(tower)
        for width in range(420, 1300, 20):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_little_motion(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: whoever wants less motion gets none."""
    with running(tmp_path / "events.sqlite3") as tower:
        for wish, moving in (("reduce", False), ("no-preference", True)):
            with watching(browser, reduced_motion=wish) as watched:
                fill = watched.ready(tower).locator(".fill").first
                duration = fill.evaluate("element => getComputedStyle(element).transitionDuration")
                assert (duration not in {"0s", ""}) is moving
                name = watched.context.pages[0].evaluate("""() => {
                    const made = document.createElement("a");
                    made.className = "event fresh";
                    document.body.append(made);
                    return getComputedStyle(made).animationName;
                }""")
                assert (name != "none") is moving


def test_focus_can_be_seen(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: whatever has the focus by the keyboard has an outline."""
    with running(tmp_path / "events.sqlite3") as tower, watching(browser) as watched:
        page = watched.ready(tower, "inspect")
        expect(page.get_by_label("Raw request")).to_be_visible()
        for _ in range(16):
            page.keyboard.press("Tab")
            style = "getComputedStyle(document.activeElement)"
            assert page.evaluate(f"document.activeElement === document.body || {style}.outlineStyle !== 'none'")
