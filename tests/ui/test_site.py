"""The documentation in a real browser, from the disk, with the network cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.site_build import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

LEFT = ("net::ERR_ABORTED",)
"""Of what a page still asked for when the test left it: the search's index, after all else. No file is missing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == (0, "")
    return folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Give a page without a network, and fail for a fault in a script or a request that leaves the disk."""
    faults: list[str] = []
    with browser.new_context(offline=True, color_scheme="dark") as context:
        given = context.new_page()
        given.on("pageerror", lambda error: faults.append(str(error)))
        given.on("request", lambda request: faults.append(request.url) if "://" in request.url[5:] else None)
        given.on("requestfailed", lambda request: faults.append(request.url) if request.failure not in LEFT else None)
        yield given
    assert faults == []


def test_every_page_opens_from_the_disk(site: Path, page: Page) -> None:
    """Rule: no page asks the network for anything, and each has a heading."""
    for file in sorted(set(site.rglob("*.html")) - {site / "404.html"}):  # a server gives that one, under any path
        page.goto(file.as_uri())
        expect(page.locator("h1").first).to_be_visible()


def test_the_search_needs_no_server(site: Path, page: Page) -> None:
    """Rule: what is typed is found, from the disk, and leads to its page."""
    page.goto((site / "reference" / "settings.html").as_uri())
    page.locator("input[name=query]").press_sequentially("max_connections")
    result = page.locator(".md-search-result__link").first
    expect(result).to_be_visible()
    result.click()
    expect(page.locator("article")).to_contain_text("max_connections")


def test_the_site_follows_the_readers_colours(site: Path, page: Page) -> None:
    """Rule: whoever has set the system to dark reads it dark, and can change that."""
    page.goto((site / "index.html").as_uri())
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    page.locator("label.md-header__button:not([hidden])[for^=__palette]").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "default")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_is_accessible(site: Path, page: Page, scheme: Literal["light", "dark"]) -> None:
    """Rule: axe finds nothing serious on a page of prose, of code or of tables: contrast, names, links."""
    page.emulate_media(color_scheme=scheme)
    found = []
    for name in ("index.html", "howto/kubernetes.html", "explanation/threat-model.html", "reference/settings.html"):
        page.goto((site / name).as_uri())
        violations = Axe().run(page, options={"preload": False}).response["violations"]
        found += [(name, each["id"]) for each in violations if each["impact"] in {"serious", "critical"}]
    assert found == []


def test_the_site_fits_a_narrow_window(site: Path, page: Page) -> None:
    """Rule: on a phone a page does not run over its side; what is wide scrolls within itself."""
    page.set_viewport_size({"width": 360, "height": 740})
    for name in ("index.html", "reference/settings.html", "PERFORMANCE.html", "decisions/0007-dependencies.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
