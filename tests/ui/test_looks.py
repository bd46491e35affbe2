"""What everybody can read: both schemes, narrow screens, little motion, assistive technology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ui.support import Watched, running

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
ROUTES = ("overview", "events", "event", "inspect", "api", "keys", "locked", "stale")


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
    with running(tmp_path / "events.sqlite3") as tower:
        context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
        for route in ROUTES:
            watched = Watched(context)
            watched.allow("net::ERR_")
            page = watched.ready(tower)
            open_everything(page, route, tower.origin)
            results = Axe().run(page)
            if results.violations_count:
                found[route] = results.generate_report()
            page.close()
        context.close()
    assert not found, "\n".join(f"{route}: {report}" for route, report in found.items())


def test_narrow_screens_do_not_scroll_sideways(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: at 360 px every page fits its width, whatever an event says."""
    with running(tmp_path / "events.sqlite3") as tower:
        tower.emit("test." + "w" * 200, {"word": "x" * 5000}, subject="s" * 200)
        context = browser.new_context(viewport={"width": 360, "height": 740})
        watched = Watched(context)
        watched.allow("net::ERR_")
        for route in ("overview", "events", "event", "inspect", "api", "locked"):
            page = watched.ready(tower)
            open_everything(page, route, tower.origin)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, route
            page.close()
        context.close()
        assert watched.complaints == []


def test_little_motion(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: whoever wants less motion gets none."""
    with running(tmp_path / "events.sqlite3") as tower:
        for wish, moving in (("reduce", False), ("no-preference", True)):
            context = browser.new_context(reduced_motion=wish)  # type: ignore[arg-type]  # one of the two
            page = Watched(context).ready(tower)
            duration = page.locator(".fill").first.evaluate("element => getComputedStyle(element).transitionDuration")
            assert (duration not in {"0s", ""}) is moving
            context.close()


def test_focus_can_be_seen(browser: Browser, tmp_path: Path) -> None:
    """CT-8.8: whatever has the focus by the keyboard has an outline."""
    with running(tmp_path / "events.sqlite3") as tower:
        context = browser.new_context()
        page = Watched(context).ready(tower, "inspect")
        expect(page.get_by_label("Raw request")).to_be_visible()
        for _ in range(16):
            page.keyboard.press("Tab")
            style = "getComputedStyle(document.activeElement)"
            assert page.evaluate(f"document.activeElement === document.body || {style}.outlineStyle !== 'none'")
        context.close()
