"""The request of an ``http`` probe: what the matrix says, as bytes. Pure: the environment is an argument (HL-4.9)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, urlsplit

from idkmesh.health.probes.words import could_not_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from idkmesh.health.model import Http

PORTS: Final = {"http": 80, "https": 443}

TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a field (RFC 9110 section 5.6.2)."""

UNSENT: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udc7f\udd00-\udfff]")
"""What no value of a field has, the tab aside (RFC 9110 section 5.5): a line end would begin another field. Nor has one
what is no character, but for the bytes of a variable that are no UTF-8."""

OURS: Final = {"connection", "content-length", "transfer-encoding", "expect", "upgrade"}
"""Fields that say how the connection is used, which is the probe's to say."""


@dataclass(frozen=True, slots=True)
class Request:
    """Whom to ask, and the bytes of the question."""

    tls: bool
    host: str
    port: int
    head: bytes


def request_of(spec: Http, environ: Mapping[str, str]) -> Request:
    """Return the request that ``spec`` declares, or raise that the probe cannot be run."""
    url, port = _split(spec.url)
    host = url.hostname or ""
    fields = {"host": ("Host", url.netloc.encode("idna").decode("ascii"))}
    fields.update({name.lower(): (name, value) for name, value in _fields(spec, environ)})
    fields["connection"] = ("Connection", "close")
    target = quote(url.path or "/", safe="/%:@!$&'()*+,;=-._~") + (f"?{_query(url)}" if url.query else "")
    lines = [f"{spec.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.values()), "", ""]
    # surrogateescape: a variable's bytes are sent as they are.
    return Request(url.scheme == "https", host, port, "\r\n".join(lines).encode("utf-8", "surrogateescape"))


def _query(url: SplitResult) -> str:
    return quote(url.query, safe="/%:@!$&'()*+,;=-._~?")


def _split(text: str) -> tuple[SplitResult, int]:
    try:
        url = urlsplit(text)
        port = url.port
        (url.hostname or "").encode("idna")
    except ValueError:
        raise could_not_run("no valid URL") from None
    # urlsplit would drop some of these characters in silence, and then the URL is not the one that was declared.
    if url.scheme not in PORTS or not url.hostname or port == 0 or not text.isprintable() or " " in text:
        raise could_not_run("no valid URL")
    if "@" in url.netloc:
        raise could_not_run("credentials in the URL: name a variable in headers_from_env")
    return url, port or PORTS[url.scheme]


def _fields(spec: Http, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "User-Agent", "idkmesh-probe"
    yield "Accept", "*/*"
    for name, value in spec.headers.items():
        yield _checked(name, value)
    for name, variable in spec.headers_from_env.items():
        if variable not in environ:
            # Nor its name: somebody may have written the credential itself there.
            raise could_not_run("a variable in headers_from_env is not set")
        yield _checked(name, environ[variable])


def _checked(name: str, value: str) -> tuple[str, str]:
    if not TOKEN.fullmatch(name) or name.lower() in OURS:
        raise could_not_run("a header that a probe cannot send")
    if UNSENT.search(value):
        raise could_not_run("the value of a header has control characters or more than one line")
    return name, value.strip(" \t")
