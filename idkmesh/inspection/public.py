"""What a finding may show of what somebody wrote (HL-7.3). Pure.

Nobody can tell each credential from each other word, so it is the other way round: programs, names of options and
variables, and the hosts of URLs are shown, and every value is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LEFT_OUT: Final = "..."
"""What stands for a value."""

_PLAIN_WORD: Final = re.compile(r"[\w.+/\[!{}-]+")
"""A program, or the path of one or of a script."""

_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_LONG_OPTION: Final = re.compile(r"(--?[A-Za-z][A-Za-z-]*)=|--[A-Za-z][A-Za-z-]*$")
_SHORT_OPTION: Final = re.compile(r"-[A-Za-z0-9]{1,2}")
"""More letters may be an option with its value: ``-pWORD``."""

_URL: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/\s]*@)?(\[[^\]\s]*\]|[^/:?#\s]*)(:[0-9]+(?![^/?#]))?(.*)", re.DOTALL
)

_HOST: Final = re.compile(r"[\w.:\[\]${}()-]*")
_PORT: Final = re.compile(r"[0-9]{1,9}|[A-Za-z0-9-]{0,15}")
_FIGURE: Final = re.compile(r"[-+]?[0-9.]{1,12} ?(?:[a-z]{1,3}|seconds?|minutes?)?|[a-z]{1,5}")


def shown_argument(word: str) -> str:
    """Return what may be shown of a word after a program: the name of an option, the host of a URL."""
    if word.startswith("-"):
        long = _LONG_OPTION.match(word)
        if long is not None:
            return long[0] + (LEFT_OUT if long[1] else "")
        return word if _SHORT_OPTION.fullmatch(word) else word[:2].rstrip(":=") + LEFT_OUT
    url = _URL.fullmatch(word)
    if url is None:
        return LEFT_OUT
    return f"{url[1]}{url[2]}{url[3] or ''}" + (url[4] if url[4] in {"", "/"} else f"/{LEFT_OUT}")


def shown_program(word: str) -> str:
    """Return a program's name, or that of a variable that is set before it."""
    variable = _VARIABLE.match(word)
    if variable is not None:
        return variable[0] + LEFT_OUT
    return word if _PLAIN_WORD.fullmatch(word) else LEFT_OUT


def shown_host(host: str) -> str:
    """Return a host without what stands before it in a URL; what is no host's name is left out."""
    bare = host.rpartition("@")[2]
    return bare if _HOST.fullmatch(bare) else LEFT_OUT


def shown_port(port: str) -> str:
    """Return a port's number, or its name if it is one as IANA has them."""
    return port if _PORT.fullmatch(port) else LEFT_OUT


def shown_figure(text: str) -> str:
    """Return what stands where a figure belongs, if it was plainly meant as one."""
    return text if _FIGURE.fullmatch(text) else LEFT_OUT


def shown_path(path: str) -> str:
    """Return a path without its query, and without what may stand before a host in it."""
    bare, query, _ = path.partition("?")
    before, mark, after = bare.rpartition("@")
    return (f"{LEFT_OUT}@{after}" if mark else before + after) + (query and f"?{LEFT_OUT}")


def joined(words: Iterable[str]) -> str:
    """Return words in one line; what is left out in a row is left out once."""
    line: list[str] = []
    for word in words:
        if word != LEFT_OUT or line[-1:] != [LEFT_OUT]:
            line.append(word)
    return " ".join(line)
