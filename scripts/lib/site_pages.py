"""Hooks of ``mkdocs.yml``: what a page links to outside ``docs/`` becomes a page of the site.

A document's relative links are right where it stands in the repository, and a forge follows them. In the site, which
has only what is under ``docs/``, each of them leads to a page that is made of what it names: the three documents at the
top are pages of their own, any other file is shown as it is, and a folder lists its files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markdown.extensions import Extension
from mkdocs.structure.files import File

from scripts.lib.document_links import FENCE, moved, over_links, target_of

if TYPE_CHECKING:
    import markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = "docs/"
AT_THE_TOP: Final = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
SHOWN: Final = "files/"
"""Where the site has the pages of other files."""
ICON: Final = "idkmesh/control_tower/static/icon.svg"
LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".json": "json", ".service": "ini", ".js": "javascript"}


ITEM: Final = re.compile(r"^ *[-*] ")


class TwoSpaces(Extension):  # type: ignore[misc]  # the library has no types
    """Lists are indented by two spaces, as CommonMark has it; Markdown's first writer asked for four."""

    def extendMarkdown(self, md: markdown.Markdown) -> None:  # noqa: N802  the name that the library calls
        """Set the width of one level."""
        md.tab_length = 2


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read lists as they are written here."""
    config.markdown_extensions.append(TwoSpaces())
    return config


def page_of(path: str) -> str:
    """Return where the site has what stands at ``path`` of the repository, from the site's root."""
    if path in AT_THE_TOP:
        return AT_THE_TOP[path]
    if (ROOT / path).is_dir():
        own = f"{path}/README.md"
        return page_of(own) if in_docs(own) and (ROOT / own).is_file() else f"{SHOWN}{path}/index.md"
    return path.removeprefix(DOCS) if in_docs(path) else f"{SHOWN}{path}.md"


def in_docs(path: str) -> bool:
    """Return whether the site has what stands at ``path`` by itself."""
    return path.startswith(DOCS)


def made_for(path: str) -> bool:
    """Return whether what stands at ``path`` needs a page that is made for it."""
    return page_of(path).startswith(SHOWN)


def relocated(text: str, document: str, page: str) -> str:
    """Return a document's text with its links as they are for ``page`` of the site."""
    return moved(text, document, page, page_of)


def linked_beyond(text: str, document: str) -> set[str]:
    """Return what a document links to and the site does not have by itself."""
    found: set[str] = set()

    def keep(link: re.Match[str]) -> str:
        target = target_of(link[2], document)
        if target is not None and made_for(target):
            found.add(target)
        return link[0]

    over_links(text, keep)
    return found


def shown(path: str) -> dict[str, str]:
    """Return the pages for a file, or for a folder and each of its files: name in the site, and text."""
    place = ROOT / path
    if place.is_dir():
        files = sorted(file.relative_to(ROOT).as_posix() for file in place.iterdir() if file.is_file())
        page = page_of(path)
        text = "".join(f"- [{posixpath.basename(file)}]({file})\n" for file in files)
        pages = {page: relocated(f"# {path}\n\n{text}", "", page)}
        for file in filter(made_for, files):
            pages |= shown(file)
        return pages
    text = place.read_text(encoding="utf-8")
    language = LANGUAGES.get(place.suffix, "text")
    return {page_of(path): f"# {path}\n\n````{language}\n{text.rstrip()}\n````\n"}


def with_lists_apart(text: str) -> str:
    """Return a text with an empty line before each list item that follows a paragraph at once.

    CommonMark begins a list there. The library would take the item for a part of the paragraph.
    """
    lines: list[str] = []
    inside = in_list = False
    for line in text.splitlines(keepends=True):
        if FENCE.match(line):
            inside = not inside
        item = not inside and ITEM.match(line) is not None
        if not lines or not lines[-1].strip():
            in_list = item
        elif item and not in_list:
            lines.append("\n")
            in_list = True
        lines.append(line)
    return "".join(lines)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the documents at the top, a page for whatever else is linked to, and the icon of the control tower's page."""
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ROOT / ICON)))
    documents = {f"{DOCS}{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for path, page in AT_THE_TOP.items():
        documents[path] = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=relocated(documents[path], path, page)))
    linked = set().union(*(linked_beyond(text, path) for path, text in documents.items()))
    pages: dict[str, str] = {}
    for path in sorted(linked):
        pages |= shown(path)
    for page, text in pages.items():
        made = File.generated(config, page, content=text)
        made.inclusion = made.inclusion.NOT_IN_NAV
        files.append(made)
    return files


def on_page_markdown(text: str, *, page: Page, **_others: object) -> str:
    """Have the links of a page under ``docs/`` lead into the site, and lists be read as a forge does."""
    if page.file.generated_by is None:
        text = relocated(text, f"{DOCS}{page.file.src_uri}", page.file.src_uri)
    return with_lists_apart(text)


def on_post_page(html: str, **_others: object) -> str:
    """Name the dialog of the search, which the theme leaves without a name for who does not see it."""
    return html.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
