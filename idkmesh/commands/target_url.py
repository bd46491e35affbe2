"""The URL that somebody gives a command to ask (CT-9, HL-6.2, RT-12.3): judged whole, before anything is sent there."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from idkmesh.addresses import is_ipv6

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_PRINTED: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")


class TargetUrl(NamedTuple):
    """Whom to ask for what.

    ``host`` is a name, or an address without brackets, and ``port`` always a number: without one ``http.client`` would
    look for it behind the last colon of an IPv6 address. ``path`` and ``query`` are as they stand, and may be empty.
    """

    tls: bool
    host: str
    port: int
    path: str
    query: str


def target_url(text: str) -> TargetUrl:
    """Return what a URL means. Raises ``ValueError``, without the text, for one with credentials and any other."""
    wanted = "write http://HOST:PORT, or https, with or without a path"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # a port that is none, brackets that do not close
        raise ValueError(wanted) from None
    if parts.scheme not in DEFAULT_PORTS or not _PRINTED.fullmatch(text) or port == 0:
        raise ValueError(wanted)
    if "@" in parts.netloc:
        raise ValueError("it has credentials in it, take them out")
    if not (is_ipv6(host) if "[" in parts.netloc else _NAME.fullmatch(host)):
        raise ValueError(wanted)
    return TargetUrl(parts.scheme == "https", host, port or DEFAULT_PORTS[parts.scheme], parts.path, parts.query)
