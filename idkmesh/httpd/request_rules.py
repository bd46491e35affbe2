"""The request rules: bytes in, a :class:`Request` or a :class:`Refusal` out. No I/O, no clock.

Laws:

1. There are two judges. The fast one says yes to an ordinary head or has no opinion; the positional one
   (:mod:`idkmesh.httpd.head_reader`) is asked then, and alone says no. What both accept they understand alike.
2. No pattern can backtrack: every repetition is possessive, and white space after a value is stripped afterwards
   instead of matched. A pattern for ``value OWS CRLF`` is cubic in a field full of spaces (HS-3.12).

The values stand in :mod:`idkmesh.httpd.request`, the rules of each line in :mod:`idkmesh.httpd.head_lines`.
"""

from __future__ import annotations

import re

from idkmesh.httpd.head_lines import TCHAR, VALUE_CHAR, declared_length, expects_continue, is_authority
from idkmesh.httpd.head_reader import HeadReader
from idkmesh.httpd.request import HeadLimits, Refusal, Request
from idkmesh.service_runtime import MAX_HEADER_LINE_BYTES, MAX_REQUEST_LINE_BYTES

__all__ = ["HeadLimits", "HeadReader", "Refusal", "Request", "judge_head", "read_head"]

# The origin-form alone (RFC 9112 3.2.1); a target is visible ASCII without "#".
_match_request_line = re.compile(
    rf'([{TCHAR}]++) ((/[!"$->@-~]*+)(?:\?([!"$-~]*+))?+) HTTP/1\.([0-9])(?=\r\n)',
).match
# RFC 9112 5. The look-ahead leaves the CRLF for the next line to start with.
_find_fields = re.compile(rf"\r\n([{TCHAR}]++):[ \t]*+([{VALUE_CHAR}]*+)(?=\r\n)").findall
# The host of nearly every request; is_authority knows the others.
_match_plain_host = re.compile(r"[A-Za-z0-9.\-]++(?::[0-5]?[0-9]{0,4})?+").fullmatch

_SHORT = min(MAX_REQUEST_LINE_BYTES, MAX_HEADER_LINE_BYTES)  # a head within it has no line over a limit


def read_head(data: bytes, limits: HeadLimits) -> tuple[Request, bytes] | Refusal | None:
    """Judge what arrived first on a connection: the request and what followed its head, or a refusal.

    None says that the head is not complete and breaks no rule so far: make a :class:`HeadReader` and feed it ``data``.
    """
    end = data.find(b"\r\n\r\n") + 4
    if end == len(data):
        request = _judge_ordinary(data, limits)
        if request is not None:
            return request, b""
    elif end > 3:  # noqa: PLR2004 - 3 is find()'s -1 plus the four bytes looked for
        request = _judge_ordinary(data[:end], limits)
        if request is not None:
            return request, data[end:]
    reader = HeadReader(limits)
    verdict = reader.feed(data)
    return (verdict, reader.rest) if isinstance(verdict, Request) else verdict


def judge_head(head: bytes, limits: HeadLimits) -> Request | Refusal:
    """Judge a complete head, request line to empty line; what follows the empty line is not looked at.

    Raises ValueError when the head is neither complete nor refusable.
    """
    verdict = read_head(head, limits)
    if verdict is None:
        raise ValueError("the head is not complete")
    return verdict[0] if isinstance(verdict, tuple) else verdict


def _judge_ordinary(head: bytes, limits: HeadLimits) -> Request | None:
    """Accept a head with nothing unusual about it, in one pass of one pattern; None is no opinion.

    ``head`` ends with two CRLFs. Every other CRLF starts a field line if and only if everything between two CRLFs is a
    field line from its first byte to its last: counting proves that nothing was skipped.
    """
    text = str(head, "latin-1")
    line = _match_request_line(text)
    if line is None:
        return None
    method, target, path, query, minor = line.groups("")
    fields = _find_fields(text, line.end())
    count = len(fields)
    if (
        count != text.count("\r\n") - 2
        or count > limits.max_header_fields
        or len(head) > _SHORT
        or len(head) - line.end() - 4 > limits.max_header_bytes
        or method == "CONNECT"
    ):
        return None
    if " \r\n" in text or "\t\r\n" in text:
        fields = [(name, value.rstrip(" \t")) for name, value in fields]
    index = {name.lower(): value for name, value in fields}
    if len(index) != count or "transfer-encoding" in index:
        return None
    host = index.get("host", "")
    if _match_plain_host(host) is None and not (is_authority(host) or (minor == "0" and "host" not in index)):
        return None
    length = None
    if "content-length" in index:
        length = declared_length(index["content-length"])
        if length is None:
            return None
    version = "HTTP/1.0" if minor == "0" else "HTTP/1.1"
    expects = "expect" in index and minor != "0" and expects_continue((index["expect"],))
    return Request(method, target, path, query, version, fields, index, head, length, expects, host)
