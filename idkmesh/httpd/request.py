"""The values of the request rules: a request that was accepted, a refusal, and the limits that a head is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_LIST_CHARACTERS: Final = 1024
"""Characters of an ``Accept`` or ``Expect`` beyond which its members are not looked at (HS-6.4, HS-12.1).

Every other byte of a head costs nanoseconds, and each member of these lists a thousand: 64 KiB of commas would hold up
the front for tens of milliseconds. What browsers send has a hundred characters or two.
"""


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """The limits of a head that are settings; the bounds of one line are fixed (HS-2.5).

    ``max_header_fields`` counts field lines. ``max_header_bytes`` bounds all field lines together, each counted with
    its CRLF; the request line and the empty line that ends the head are not counted.
    """

    max_header_fields: int = 99
    max_header_bytes: int = 256 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not served, as a value: deciding is here, writing the response is somewhere else.

    ``status`` and ``code`` are what the response says, ``message`` is one sentence for its reader, ``retryable`` tells
    whether the same request may succeed later. ``reason`` (stable, snake_case) and ``rfc`` (``"RFC 9112 5.1"``) name
    the rule, ``offset`` is the byte of the request, counted from 0, where it was broken. ``headers`` are fields that
    the response carries besides the standard ones, ``Allow`` for example. ``details`` are further members of
    ``details`` in the answer.
    """

    status: int
    code: str
    message: str
    retryable: bool = False
    reason: str | None = None
    rfc: str | None = None
    offset: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    details: tuple[tuple[str, str | int], ...] = ()


class Request:
    """A head that broke no rule. Treat it as read-only.

    ``method`` and ``target`` are as sent. ``path`` and ``query`` are the target split at its first ``?``; of an
    absolute-form target they are the URI's, with ``/`` for an empty path. ``version`` is ``HTTP/1.0`` or ``HTTP/1.1``.
    ``fields`` are (name as sent, value without surrounding white space) in order, decoded as Latin-1. ``head`` is the
    bytes from the request line to the empty line inclusive. ``content_length`` is in bytes, None when not declared.
    ``expect_continue`` is true only for HTTP/1.1 (RFC 9110 10.1.1). ``authority`` is the target's where it has one,
    else the value of ``Host``, else empty (RFC 9112 3.3).

    Not a dataclass: a frozen one takes four times as long to construct, and one is made for every request.
    """

    __slots__ = (
        "_index",
        "authority",
        "content_length",
        "expect_continue",
        "fields",
        "head",
        "method",
        "path",
        "query",
        "target",
        "version",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one value; a group of them would be one more object a request
        self,
        method: str,
        target: str,
        path: str,
        query: str,
        version: str,
        fields: list[tuple[str, str]],
        index: dict[str, str],
        head: bytes,
        content_length: int | None,
        expect_continue: bool,  # noqa: FBT001 - as above
        authority: str,
    ) -> None:
        """Take the parts as judged; ``index`` maps each lower-case field name to its first value."""
        self.method = method
        self.target = target
        self.path = path
        self.query = query
        self.version = version
        self.fields = fields
        self._index = index
        self.head = head
        self.content_length = content_length
        self.expect_continue = expect_continue
        self.authority = authority

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of the field ``name`` (given in lower case), or ``default``."""
        return self._index.get(name, default)

    def __repr__(self) -> str:
        """Show the request line; field values may be secrets and stay out of logs."""
        return f"<Request {self.method} {self.target} {self.version}, {len(self.fields)} fields>"
