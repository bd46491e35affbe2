"""The head of a response that a handler writes: where it ends, and the ``Connection: close`` that it gains (HS-7.1).

Pure. Nothing else about the head changes. Interim responses before it pass unchanged; after a 101 everything does.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SWITCHING_PROTOCOLS = 101

_STATUS_LINE = b"HTTP/1."
_replace_connection = re.compile(rb"\r\nconnection:[^\r\n]*+", re.IGNORECASE).sub


class HandlerHead(NamedTuple):
    """What may leave of some written bytes, and what is `held` until more of the head is there.

    `status` is the response's, 0 while it is not known or where there is none; `done` says that no head is awaited.
    """

    ready: bytes
    held: bytes
    status: int
    done: bool


def finish_head(data: bytes, *, final: bool, most: int) -> HandlerHead:
    """Give the head its ``Connection: close``, once it is complete.

    :param final: the rest will not come this way: the head goes as it is.
    :param most: bytes that are held for a head without an end.
    """
    start = status = 0
    while data.startswith(_STATUS_LINE, start):
        digits = data[start + 9 : start + 12]
        found = int(digits) if digits.isdigit() else 0
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            if not final and len(data) - start < most:
                return HandlerHead(data[:start], data[start:], 0, done=False)
            if found // 100 > 1 and data.endswith(b"\r\n"):
                status = found
                data = data[:start] + _closing(data[start:], status)
            break
        if found // 100 == 1 and found != SWITCHING_PROTOCOLS:  # RFC 9110 15.2: an interim response
            start = end + 4
        elif found:
            ready = data[:start] + _closing(data[start : end + 2], found) + data[end + 2 :]
            return HandlerHead(ready, b"", found, done=True)
        else:
            break
    if not final and _STATUS_LINE.startswith(data[start : start + len(_STATUS_LINE) + 1]):
        return HandlerHead(data[:start], data[start:], 0, done=False)
    # No response of HTTP/1, or one without an end: the handler wrote something of its own.
    return HandlerHead(data, b"", status, done=True)


def _closing(head: bytes, status: int) -> bytes:
    """Return a response's head, whose last line ends in CRLF, with one ``Connection: close`` in it."""
    if status == SWITCHING_PROTOCOLS:  # RFC 9110 15.2.2: the connection goes on
        return head
    if b"\r\nconnection:" not in head.lower():
        return head + b"Connection: close\r\n"
    fields = iter((b"\r\nConnection: close",))
    return _replace_connection(lambda _: next(fields, b""), head)
