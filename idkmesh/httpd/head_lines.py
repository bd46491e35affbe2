"""The grammar of a request head, line by line, with the clause and the byte of each fault.

Pure functions of bytes. A line is given without its CRLF, with the offset of its first byte in the request; it contains
neither CR nor LF, because :mod:`idkmesh.httpd.head_reader` has cut it out at its CRLF. The clauses HS-3.x stand in
``docs/specifications/HTTP_SERVER_V0_1.md``.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple

from idkmesh.httpd.head_faults import refuse
from idkmesh.httpd.request import MAX_LIST_CHARACTERS, Refusal, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# token = 1*tchar (RFC 9110 5.6.2), for use inside a character class.
TCHAR = r"!#$%&'*+\-.^_`|~0-9A-Za-z"
# field-vchar, SP and HTAB (RFC 9110 5.5), obs-text included: it is opaque data, not an error.
VALUE_CHAR = r"\t\x20-\x7e\x80-\xff"

_TOKEN = re.compile(f"[{TCHAR}]*+".encode("latin-1"))
_VALUE = re.compile(f"[{VALUE_CHAR}]*+".encode("latin-1"))
_SPACE = re.compile(rb"[ \t]")
_TARGET = re.compile(rb'[!-"$-~]*+')  # visible ASCII without "#"
_VERSION = re.compile(rb"HTTP/([0-9])\.([0-9])")  # RFC 9112 2.3
_ABSOLUTE = re.compile(r"https?://([^/?]*+)([^?]*+)(?:\?(.*+))?+", re.IGNORECASE)  # RFC 9112 3.2.2

# host and port of RFC 3986 3.2.2 and 3.2.3; the inside of an IP-literal is looked at by _is_ip_literal.
_AUTHORITY = re.compile(
    r"(?:\[([0-9A-Za-z:.\-_~!$&'()*+,;=]*+)\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})++)(?::([0-9]*+))?+",
)
_IPV6 = re.compile(r"[0-9A-Fa-f:.]++")  # the ipaddress module alone would take a zone ("%eth0") as well
_IPVFUTURE = re.compile(r"v[0-9A-Fa-f]++\.[A-Za-z0-9\-._~!$&'()*+,;=:]++", re.IGNORECASE)
_ENDS_WITH_PORT = re.compile(r":[0-9]++\Z")
_MAX_PORT = 65_535

_DIGITS = re.compile(r"[0-9]++")
_MAX_LENGTH_DIGITS = 18
HUGE_LENGTH = 2**63  # stands for a declared length of 10**18 or more; int() refuses strings of over 4,300 digits


class RequestLine(NamedTuple):
    """A request line that broke no rule; ``authority`` is the target's own, None where it has none."""

    method: str
    target: str
    path: str
    query: str
    version: str
    authority: str | None


class FieldLine(NamedTuple):
    """A field line that broke no rule; ``start`` and ``value_start`` are byte offsets in the request."""

    name: str
    value: str
    start: int
    value_start: int


def is_authority(text: str) -> bool:
    """Tell whether ``text`` is ``uri-host [":" port]`` with a host and a port of at most 65,535 (HS-3.6)."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return False
    literal, port = match.groups()
    if literal is not None and not _is_ip_literal(literal):
        return False
    digits = (port or "").lstrip("0")
    return len(digits) <= len(str(_MAX_PORT)) and int(digits or "0") <= _MAX_PORT


def _is_ip_literal(inside: str) -> bool:
    """Tell whether the text between brackets is an IPv6address or an IPvFuture (RFC 3986 3.2.2)."""
    if _IPV6.fullmatch(inside) is None:
        return _IPVFUTURE.fullmatch(inside) is not None
    try:
        ipaddress.IPv6Address(inside)
    except ValueError:
        return False
    return True


def declared_length(digits: str) -> int | None:
    """Return the bytes that a Content-Length value declares, None if it is not ``1*DIGIT`` (RFC 9110 8.6)."""
    if _DIGITS.fullmatch(digits) is None:
        return None
    significant = digits.lstrip("0")
    return HUGE_LENGTH if len(significant) > _MAX_LENGTH_DIGITS else int(significant or "0")


def judge_request_line(line: bytes) -> RequestLine | Refusal:
    """Judge the request line ``method SP request-target SP HTTP-version`` (HS-3.1 to HS-3.3, RFC 9112 3).

    From left to right; the form of the target, which depends on the method, is judged after the version, so that the
    preface of HTTP/2 (``PRI * HTTP/2.0``) is told what is wrong with it.
    """
    if not line:
        return refuse("empty_line", 0)
    method_end = _end(_TOKEN, line, 0)
    if method_end == 0 or line[method_end : method_end + 1] != b" ":
        return refuse(_bad_method(line[method_end : method_end + 1]), method_end)
    target_start = method_end + 1
    target_end = _end(_TARGET, line, target_start)
    if target_end == target_start or line[target_end : target_end + 1] != b" ":
        return refuse(_bad_target(line[target_end : target_end + 1], target_end - target_start), target_end)
    version_start = target_end + 1
    version = _VERSION.fullmatch(line, version_start)
    if version is None:
        return _bad_version(line, version_start)
    if version[1] != b"1":
        return refuse("unsupported_version", version_start)
    return _judge_target(
        line[:method_end].decode("ascii"),
        line[target_start:target_end].decode("ascii"),
        "HTTP/1.0" if version[2] == b"0" else "HTTP/1.1",
        target_start,
    )


def _end(run: re.Pattern[bytes], line: bytes, start: int) -> int:
    """Return where the run of bytes that starts at ``start`` ends; it may be empty."""
    match = run.match(line, start)
    return start if match is None else match.end()


def _bad_method(byte: bytes) -> str:
    """Say what is wrong with ``byte``, which follows the method instead of a space; it is empty at the line's end."""
    if not byte:
        return "no_target"
    return "bad_spacing" if byte in b" \t" else "bad_method"


def _bad_target(byte: bytes, length: int) -> str:
    """Say what is wrong with ``byte``, which follows ``length`` good bytes of the target instead of a space."""
    if not byte:
        return "no_version" if length else "no_target"
    if byte in b" \t":
        return "bad_spacing"
    return "fragment_in_target" if byte == b"#" else "bad_target_byte"


def _bad_version(line: bytes, start: int) -> Refusal:
    space = _SPACE.search(line, start)
    if space is not None:
        return refuse("bad_spacing", space.start())
    return refuse("no_version" if start == len(line) else "bad_version", start)


def _judge_target(method: str, target: str, version: str, offset: int) -> RequestLine | Refusal:
    """Judge the four forms of a target (RFC 9112 3.2) and split it into path and query."""
    if method == "CONNECT":
        if is_authority(target) and _ENDS_WITH_PORT.search(target):
            return RequestLine(method, target, target, "", version, target)
        return refuse("bad_connect_target", offset)
    if target[0] == "/":
        path, _, query = target.partition("?")
        return RequestLine(method, target, path, query, version, None)
    if target != "*":
        return _judge_absolute(method, target, version, offset)
    if method != "OPTIONS":
        return refuse("asterisk_without_options", offset)
    return RequestLine(method, target, target, "", version, None)


def _judge_absolute(method: str, target: str, version: str, offset: int) -> RequestLine | Refusal:
    """Judge the absolute-form (RFC 9112 3.2.2), of a URI that an HTTP server can be the origin of."""
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        return refuse("bad_target_form", offset)
    authority, path, query = absolute.groups("")
    if not is_authority(authority):
        reason = "userinfo_in_target" if "@" in authority else "bad_target_authority"
        return refuse(reason, offset + absolute.start(1))
    return RequestLine(method, target, path or "/", query, version, authority)


def judge_field_line(line: bytes, start: int, *, first: bool) -> FieldLine | Refusal:
    """Judge one field line ``field-name ":" OWS field-value OWS`` (HS-3.5, RFC 9112 5); it is not empty.

    ``first`` says that it follows the request line, where leading white space is another fault than a fold.
    """
    name_end = _end(_TOKEN, line, 0)
    if name_end == 0 or line[name_end : name_end + 1] != b":":
        return _bad_name(line, start, name_end, first=first)
    value_end = _end(_VALUE, line, name_end + 1)
    if value_end != len(line):
        return refuse("control_in_value", start + value_end)
    value = line[name_end + 1 :].lstrip(b" \t")
    value_start = start + len(line) - len(value)
    return FieldLine(line[:name_end].decode("ascii"), value.rstrip(b" \t").decode("latin-1"), start, value_start)


def _bad_name(line: bytes, start: int, name_end: int, *, first: bool) -> Refusal:
    if line[0] in b" \t":
        return refuse("space_before_first_field" if first else "folded_line", start)
    if b":" not in line:
        return refuse("no_colon", start)
    if line[0] == ord(":"):
        return refuse("empty_field_name", start)
    spaced = line[name_end:].lstrip(b" \t").startswith(b":")
    return refuse("space_before_colon" if spaced else "bad_field_name", start + name_end)


def judge_whole(line: RequestLine, fields: Sequence[FieldLine], head: bytes) -> Request | Refusal:
    """Judge what concerns the head as a whole, ``Host`` and then the lengths (HS-3.6 to HS-3.8, HS-3.10)."""
    named: dict[str, list[FieldLine]] = {}
    for field in fields:
        named.setdefault(field.name.lower(), []).append(field)
    hosts = named.get("host", [])
    refusal = _judge_host(line.version, hosts, len(head) - 2)
    if refusal is not None:
        return refusal
    length = _judge_length(line, named.get("content-length", []), named.get("transfer-encoding", []))
    if isinstance(length, Refusal):
        return length
    host = hosts[0].value if hosts else ""
    return Request(
        line.method,
        line.target,
        line.path,
        line.query,
        line.version,
        [(field.name, field.value) for field in fields],
        {name: same[0].value for name, same in named.items()},
        head,
        length,
        line.version == "HTTP/1.1" and expects_continue(field.value for field in named.get("expect", [])),
        host if line.authority is None else line.authority,
    )


def _judge_host(version: str, hosts: Sequence[FieldLine], end: int) -> Refusal | None:
    """Judge ``Host`` (RFC 9112 3.2); ``end`` is the offset of the empty line."""
    if not hosts:
        return None if version == "HTTP/1.0" else refuse("no_host", end)
    if len(hosts) > 1:
        return refuse("several_hosts", hosts[1].start)
    return None if is_authority(hosts[0].value) else refuse("bad_host", hosts[0].value_start)


def _judge_length(
    line: RequestLine, lengths: Sequence[FieldLine], codings: Sequence[FieldLine]
) -> int | Refusal | None:
    """Judge how long the body is; what two readers could take for two lengths is refused (RFC 9112 6.1, 6.3)."""
    if codings:
        return refuse(_bad_coding(line.version, lengths), codings[0].start)
    if not lengths:
        return None
    if len(lengths) > 1:
        return refuse("several_content_lengths", lengths[1].start)
    length = declared_length(lengths[0].value)
    if length is None:
        return refuse("bad_content_length", lengths[0].value_start)
    if length and line.method == "CONNECT":
        return refuse("content_in_connect", lengths[0].value_start)
    return length


def _bad_coding(version: str, lengths: Sequence[FieldLine]) -> str:
    if version == "HTTP/1.0":
        return "transfer_encoding_in_http_1_0"
    return "content_length_and_transfer_encoding" if lengths else "transfer_encoding"


def expects_continue(values: Iterable[str]) -> bool:
    """Tell whether ``100-continue`` is a member of these Expect values (RFC 9110 10.1.1; case does not matter).

    Values of more than :data:`MAX_LIST_CHARACTERS` together expect nothing (HS-6.4).
    """
    together = ",".join(values)
    return len(together) <= MAX_LIST_CHARACTERS and any(
        member.strip(" \t").lower() == "100-continue" for member in together.split(",")
    )
