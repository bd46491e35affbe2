"""Links of documents: where they lead, and how they are changed when the text moves to another place."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LINK: Final = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE: Final = re.compile(r"^ *```")


def anchor(heading: str) -> str:
    """Return the anchor of a heading as the usual viewers of Markdown make it."""
    return "".join(char for char in heading.lower().replace(" ", "-") if char.isalnum() or char in "-_")


def over_links(text: str, change: Callable[[re.Match[str]], str]) -> str:
    """Return ``text`` with each link outside its blocks of code changed."""
    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        fence = FENCE.match(line) is not None
        inside ^= fence
        lines.append(line if inside or fence else LINK.sub(change, line))
    return "".join(lines)


def target_of(link: str, document: str) -> str | None:
    """Return the path in the repository that a link of ``document`` leads to; none where it leads out of it."""
    if "://" in link or link.startswith("mailto:"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link))


def moved(text: str, document: str, page: str, place_of: Callable[[str], str] = lambda path: path) -> str:
    """Return a text of ``document`` with its links as they are right in ``page``.

    ``place_of`` says where what stands at a path of the repository is, seen from the folder that ``page`` counts from.
    """

    def change(found: re.Match[str]) -> str:
        target = target_of(found[2], document)
        if target is None:
            return found[0]
        there = posixpath.relpath(place_of(target), posixpath.dirname(page) or ".")
        return f"{found[1]}{there}{found[3] or ''}{found[4]}"

    return over_links(text, change)
