"""The documentation is a site that is whole, and that asks nobody else for anything."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from scripts.lib.site_clauses import with_links
from scripts.lib.site_pages import relocated, with_lists_apart
from tests.site_build import ROOT, build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == (0, "")
    return folder


class Resources(HTMLParser):
    """Collects what a page loads by itself: all addresses but those of links that a reader follows."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":
            self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "data", "poster"}]


def is_outside(address: str) -> bool:
    return re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", address, re.IGNORECASE) is not None


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    """Rule: the site reads without a network: scripts, styles, fonts and pictures are its own."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    outside = []
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        outside += [(page.name, address) for address in resources.loaded if is_outside(address)]
    for sheet in site.rglob("*.css"):
        named = re.findall(r"(?:url\(\s*|@import\s+)[\"']?(?!url\()([^\"')]+)", sheet.read_text(encoding="utf-8"))
        outside += [(sheet.name, address) for address in named if is_outside(address)]
    assert outside == []


def test_the_site_has_the_icon_of_the_control_tower(site: Path) -> None:
    """Rule: logo and icon of each page are the product's own, of which there is one file."""
    icon = ROOT / "idkmesh" / "control_tower" / "static" / "icon.svg"
    assert (site / "assets" / "icon.svg").read_bytes() == icon.read_bytes()
    home = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<link rel="icon" href="(?:\./)?assets/icon\.svg">', home)
    assert re.search(r'<img src="(?:\./)?assets/icon\.svg" alt="logo">', home)


def test_a_page_has_one_title(site: Path) -> None:
    """Rule: what stands beside a second title is in no table of contents, so a page of several has none."""
    pages = set(site.rglob("*.html")) - {site / "404.html"}
    titles = {page.relative_to(site).as_posix(): page.read_text(encoding="utf-8").count("<h1") for page in pages}
    assert {name: count for name, count in titles.items() if count != 1} == {}


def test_lists_are_lists(site: Path) -> None:
    """Rule: what a forge shows as an item of a list is none of a paragraph."""
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    paragraphs = {page: re.findall(r"<p>(.*?)</p>", text, re.DOTALL) for page, text in pages.items()}
    lines = [(page.name, line) for page, found in paragraphs.items() for each in found for line in each.splitlines()]
    assert len(lines) > 1000
    assert [line for line in lines if re.match(r"[-*] ", line[1])] == []
    text = "- a\n\n  b\n- c\nd\n- e\n\nf\n- g\n```\nh\n- i\n```\n"
    assert with_lists_apart(text) == "- a\n\n  b\n\n- c\nd\n- e\n\nf\n\n- g\n```\nh\n- i\n```\n"


def test_what_stands_outside_docs_is_shown(site: Path) -> None:
    """Rule: a link to an example leads to a page that has it, word for word; one to a folder to a list of its files."""
    example = (ROOT / "examples" / "router.yaml").read_text(encoding="utf-8")
    page = (site / "files" / "examples" / "router.yaml.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>", "", page)
    assert example.splitlines()[0] in text
    folder = (site / "files" / "deploy" / "readiness-adapter" / "index.html").read_text(encoding="utf-8")
    assert 'href="compose.yaml.html"' in folder
    assert 'href="../files/examples/router.yaml.html"' in (site / "howto" / "router.html").read_text(encoding="utf-8")
    assert 'href="files/examples/Dockerfile.html"' in (site / "index.html").read_text(encoding="utf-8")


def test_a_clause_that_is_named_leads_to_where_it_stands(site: Path) -> None:
    """Rule: each link to a clause has its anchor; in code, headings and links a name stays a name."""
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    links = {
        (page, address, anchor)
        for page, text in pages.items()
        for address, anchor in re.findall(r'href="([^"#]*)#([a-z]{2}-\d+\.\d+)"', text)
    }
    assert len(links) > 200
    lost = [
        (page.name, anchor)
        for page, address, anchor in links
        if f'id="{anchor}"' not in pages[(page.parent / address).resolve() if address else page]
    ]
    assert lost == []
    html = "<p>AB-1.2, AB-1.3</p><h2>AB-1.2</h2><code>AB-1.2</code><a href='x'>AB-1.2</a>"
    assert with_links(html, {"AB-1.2": "y"}) == html.replace("<p>AB-1.2", '<p><a href="y">AB-1.2</a>')


def test_links_are_moved_with_their_page() -> None:
    """Rule: a link is right on the forge and in the site; code, anchors and what is elsewhere stay as they are."""
    text = (
        "[a](docs/ALERTS.md#b) [c](examples/router.yaml) [d](#e) [f](https://example.org/g)\n```\n[h](docs/i.md)\n```\n"
    )
    moved = relocated(text, "README.md", "index.md")
    assert moved == (
        "[a](ALERTS.md#b) [c](files/examples/router.yaml.md) [d](#e) [f](https://example.org/g)\n"
        "```\n[h](docs/i.md)\n```\n"
    )
    assert relocated("[a](../../README.md#b)", "docs/howto/x.md", "howto/x.md") == "[a](../index.md#b)"
    assert relocated("[a](../decisions)", "docs/howto/x.md", "howto/x.md") == "[a](../decisions/README.md)"


def test_a_page_or_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    """Rule: a page without its entry, a link to no page and one to no heading each fail the build, by name."""
    tree = tmp_path / "tree"
    kept_out = shutil.ignore_patterns("__pycache__", "results", "build")
    for name in ("docs", "scripts", "examples", "deploy", "idkmesh"):
        shutil.copytree(ROOT / name, tree / name, ignore=kept_out)
    for name in ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    (tree / "docs" / "reference" / "unlisted.md").write_text("# Unlisted\n", encoding="utf-8")
    with (tree / "docs" / "ALERTS.md").open("a", encoding="utf-8") as page:
        page.write("\n[a](nowhere.md) [b](REHEARSAL.md#no-heading)\n")
    code, said = build(tmp_path / "site", tree)
    assert code == 1
    for what in ("reference/unlisted.md", "nowhere.md", "no-heading"):
        assert what in said
