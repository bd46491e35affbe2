"""Hooks of ``mkdocs.yml``: a clause that a page of the site names leads to where it stands in its contract.

Documents name a clause by its number alone, as code and tests do. In the site each clause has an anchor, and each name
of one in running text is a link to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mkdocs.utils import get_relative_url

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

STATED: Final = re.compile(r"^- \*\*([A-Z]{2}-\d+\.\d+)\*\*", re.MULTILINE)
NAMED: Final = re.compile(r"\b[A-Z]{2}-\d+\.\d+\b")
TAG: Final = re.compile(r"(<[^>]+>)")
QUIET: Final = frozenset({"a", "code", "pre", "strong", "h1", "h2", "h3", "h4"})
"""Where a name stays a name: in a link, in code, in a heading, and where the clause itself stands."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Find where each clause stands, and keep it for this build."""
    config.extra["clauses"] = {
        clause: f"{file.url}#{clause.lower()}"
        for file in files.documentation_pages()
        for clause in STATED.findall(file.content_string)
    }
    return files


def on_page_markdown(text: str, **_others: object) -> str:
    """Give each clause that the page states an anchor."""
    return STATED.sub(lambda found: f'- <a id="{found[1].lower()}"></a>**{found[1]}**', text)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, **_others: object) -> str:
    """Make a link of each name of a clause."""
    clauses: dict[str, str] = config.extra["clauses"]
    return with_links(html, {clause: get_relative_url(url, page.url) for clause, url in clauses.items()})


def with_links(html: str, addresses: dict[str, str]) -> str:
    """Return a page with links to the clauses that it names in running text."""

    def link(found: re.Match[str]) -> str:
        address = addresses.get(found[0])
        return found[0] if address is None else f'<a href="{address}">{found[0]}</a>'

    parts, quiet = [], 0
    for part in TAG.split(html):
        name = part.strip("</>").partition(" ")[0]
        if not part.startswith("<"):
            parts.append(part if quiet else NAMED.sub(link, part))
            continue
        if name in QUIET:
            quiet += -1 if part.startswith("</") else 1
        parts.append(part)
    return "".join(parts)
