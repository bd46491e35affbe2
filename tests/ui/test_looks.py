"""What everybody can read: both schemes, narrow screens, little motion, assistive technology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ui.support import running, watching

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
ROUTES = ("overview", "events", "event", "inspect", "api", "keys", "stale", "locked")


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barrier_that_axe_finds(browser: Browser, tmp_path: Path, scheme: Scheme) -> None:
    """CT-8.8: axe-core finds nothing on any page, in either scheme, grey figures included."""
    found: dict[str, str] = {}
    looks = {"color_scheme": scheme, "reduced_motion": "reduce"}
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
            page.keyboard.press("Escape")


def test_little_motion(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: whoever wants less motion gets none."""
    with running(tmp_path / "events.sqlite3") as tower:
        for wish, moving in (("reduce", False), ("no-preference", True)):
            with watching(browser, reduced_motion=wish) as watched:
                fill = watched.ready(tower).locator(".fill").first
                duration = fill.evaluate("element => getComputedStyle(element).transitionDuration")
                assert (duration not in {"0s", ""}) is moving


def test_focus_can_be_seen(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: whatever has the focus by the keyboard has an outline."""
    with running(tmp_path / "events.sqlite3") as tower, watching(browser) as watched:
        page = watched.ready(tower, "inspect")
        expect(page.get_by_label("Raw request")).to_be_visible()
        for _ in range(16):
            page.keyboard.press("Tab")
            style = "getComputedStyle(document.activeElement)"
            assert page.evaluate(f"document.activeElement === document.body || {style}.outlineStyle !== 'none'")
