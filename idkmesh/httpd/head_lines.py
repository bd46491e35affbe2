"""The grammar of a request head, line by line, with the clause and the byte of each fault.

Pure functions of bytes. A line is given without its CRLF, with the offset of its first byte in the request; it contains
neither CR nor LF, because :mod:`idkmesh.httpd.head_reader` has cut it out at its CRLF. The clauses HS-3.x stand in
``docs/specifications/HTTP_SERVER_V0_1.md``.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple

from idkmesh.httpd.request import Refusal, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# token = 1*tchar (RFC 9110 5.6.2), for use inside a character class.
TCHAR = r"!#$%&'*+\-.^_`|~0-9A-Za-z"
# field-vchar, SP and HTAB (RFC 9110 5.5), obs-text included: it is opaque data, not an error.
VALUE_CHAR = r"\t\x20-\x7e\x80-\xff"

_TOKEN = re.compile(f"[{TCHAR}]*+".encode("latin-1"))
_VALUE = re.compile(f"[{VALUE_CHAR}]*+".encode("latin-1"))
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


def invalid(reason: str, rfc: str, offset: int, message: str) -> Refusal:
    """Return the refusal of a malformed request: 400, not retryable."""
    return Refusal(400, "invalid_request", message, reason=reason, rfc=rfc, offset=offset)


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
        return invalid("empty_line", "RFC 9112 2.2", 0, "There is an empty line before the request line.")
    method_end = _end(_TOKEN, line, 0)
    if method_end == 0 or line[method_end : method_end + 1] != b" ":
        return _bad_method(line, method_end)
    target_start = method_end + 1
    target_end = _end(_TARGET, line, target_start)
    if target_end == target_start or line[target_end : target_end + 1] != b" ":
        return _bad_target(line, target_start, target_end)
    version_start = target_end + 1
    version = _VERSION.fullmatch(line, version_start)
    if version is None:
        return _bad_version(line, version_start)
    if version[1] != b"1":
        return Refusal(
            505,
            "version_not_supported",
            "This server speaks HTTP/1.0 and HTTP/1.1 only.",
            reason="http_version",
            rfc="RFC 9110 2.5",
            offset=version_start,
        )
    return _judge_target(
        line[:method_end].decode("ascii"),
        line[target_start:target_end].decode("ascii"),
        "HTTP/1.0" if version[2] == b"0" else "HTTP/1.1",
        target_start,
    )


def _end(pattern: re.Pattern[bytes], line: bytes, start: int) -> int:
    """Return where the run that ``pattern`` matches at ``start`` ends; the patterns here match everywhere."""
    match = pattern.match(line, start)
    return start if match is None else match.end()


def _bad_method(line: bytes, offset: int) -> Refusal:
    if offset == len(line):
        return invalid("no_target", "RFC 9112 3", offset, "The request line ends after its first word.")
    if line[offset] in b" \t":
        return invalid("bad_spacing", "RFC 9112 3", offset, "The method is not followed by exactly one space.")
    return invalid("bad_method", "RFC 9110 9.1", offset, "The method contains a byte that no token may contain.")


def _bad_target(line: bytes, start: int, offset: int) -> Refusal:
    if offset == len(line):
        if offset == start:
            return invalid("no_target", "RFC 9112 3", offset, "The request line has no target.")
        return invalid("no_version", "RFC 9112 3", offset, "The request line has no version; HTTP/0.9 is not spoken.")
    if line[offset] in b" \t":
        return invalid(
            "bad_spacing", "RFC 9112 3", offset, "The request line's parts are not separated by exactly one space."
        )
    if line[offset] == ord("#"):
        return invalid("fragment_in_target", "RFC 9112 3.2", offset, 'The target contains "#".')
    return invalid("bad_target_byte", "RFC 9112 3.2", offset, "The target contains a byte that is not visible ASCII.")


def _bad_version(line: bytes, start: int) -> Refusal:
    space = next((at for at in range(start, len(line)) if line[at] in b" \t"), None)
    if space is not None:
        return invalid(
            "bad_spacing", "RFC 9112 3", space, "The request line has white space beyond its two single spaces."
        )
    if start == len(line):
        return invalid("no_version", "RFC 9112 3", start, "The request line has no version; HTTP/0.9 is not spoken.")
    return invalid("bad_version", "RFC 9112 2.3", start, 'The version is not "HTTP/", a digit, a dot and a digit.')


def _judge_target(method: str, target: str, version: str, offset: int) -> RequestLine | Refusal:
    """Judge the four forms of a target (RFC 9112 3.2) and split it into path and query."""
    if method == "CONNECT":
        return _judge_connect(target, version, offset)
    if target[0] == "/":
        path, _, query = target.partition("?")
        return RequestLine(method, target, path, query, version, None)
    if target != "*":
        return _judge_absolute(method, target, version, offset)
    if method != "OPTIONS":
        return invalid("asterisk_without_options", "RFC 9112 3.2.4", offset, 'The target "*" is for OPTIONS only.')
    return RequestLine(method, target, target, "", version, None)


def _judge_connect(target: str, version: str, offset: int) -> RequestLine | Refusal:
    """Judge the authority-form, which has a port always (RFC 9112 3.2.3)."""
    if is_authority(target) and _ENDS_WITH_PORT.search(target):
        return RequestLine("CONNECT", target, target, "", version, target)
    return invalid("bad_connect_target", "RFC 9112 3.2.3", offset, "The target of CONNECT is not a host and a port.")


def _judge_absolute(method: str, target: str, version: str, offset: int) -> RequestLine | Refusal:
    """Judge the absolute-form (RFC 9112 3.2.2), of a URI that an HTTP server can be the origin of."""
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        message = "The target is neither an absolute path nor an http or https URI."
        return invalid("bad_target_form", "RFC 9112 3.2", offset, message)
    authority, path, query = absolute.groups("")
    if "@" in authority:
        return invalid("userinfo_in_target", "RFC 9110 4.2.4", offset, "The target contains user information.")
    if not is_authority(authority):
        return invalid("bad_target_authority", "RFC 9110 4.2.1", offset, "The target's host or port is not valid.")
    return RequestLine(method, target, path or "/", query, version, authority)


def judge_field_line(line: bytes, start: int, *, first: bool) -> FieldLine | Refusal:
    """Judge one field line ``field-name ":" OWS field-value OWS`` (HS-3.5, RFC 9112 5).

    ``first`` says that it follows the request line, where leading white space is another fault than a fold.
    """
    name_end = _end(_TOKEN, line, 0)
    if name_end == 0 or line[name_end : name_end + 1] != b":":
        return _bad_name(line, start, name_end, first=first)
    value_end = _end(_VALUE, line, name_end + 1)
    if value_end != len(line):
        return invalid("control_in_value", "RFC 9110 5.5", start + value_end, "A field value contains a control byte.")
    value = line[name_end + 1 :].lstrip(b" \t")
    value_start = start + len(line) - len(value)
    return FieldLine(line[:name_end].decode("ascii"), value.rstrip(b" \t").decode("latin-1"), start, value_start)


def _bad_name(line: bytes, start: int, name_end: int, *, first: bool) -> Refusal:
    offset = start + name_end
    if line[0] in b" \t":
        if first:
            return invalid(
                "space_before_first_field",
                "RFC 9112 2.2",
                start,
                "The line after the request line starts with white space.",
            )
        return invalid("folded_line", "RFC 9112 5.2", start, "A field is folded over two lines.")
    if line[0] == ord(":"):
        return invalid("empty_field_name", "RFC 9112 5", start, "A field has no name.")
    if b":" not in line:
        return invalid("no_colon", "RFC 9112 5", start, "A field line has no colon.")
    if line[name_end:].lstrip(b" \t").startswith(b":"):
        return invalid(
            "space_before_colon", "RFC 9112 5.1", offset, "There is white space between a field's name and its colon."
        )
    return invalid("bad_field_name", "RFC 9110 5.1", offset, "A field name contains a byte that no token may contain.")


def judge_whole(line: RequestLine, fields: Sequence[FieldLine], head: bytes) -> Request | Refusal:
    """Judge what concerns the head as a whole, ``Host`` and then the lengths (HS-3.6 to HS-3.8, HS-3.10)."""
    named: dict[str, list[FieldLine]] = {}
    for field in fields:
        named.setdefault(field.name.lower(), []).append(field)
    hosts = named.get("host", [])
    refusal = _judge_host(line.version, hosts, len(head) - 2)
    if refusal is not None:
        return refusal
    lengths = named.get("content-length", [])
    length = _judge_length(line.version, lengths, named.get("transfer-encoding", []))
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
        if version == "HTTP/1.0":
            return None
        return invalid("no_host", "RFC 9112 3.2", end, "An HTTP/1.1 request needs a Host field.")
    if len(hosts) > 1:
        return invalid("several_hosts", "RFC 9112 3.2", hosts[1].start, "There is more than one Host field.")
    if not is_authority(hosts[0].value):
        return invalid(
            "bad_host", "RFC 9112 3.2", hosts[0].value_start, "The Host field is not a host with an optional port."
        )
    return None


def _judge_length(version: str, lengths: Sequence[FieldLine], codings: Sequence[FieldLine]) -> int | Refusal | None:
    """Judge how long the body is; what two readers could take for two lengths is refused (RFC 9112 6.1, 6.3)."""
    if codings:
        return _judge_coding(version, lengths, codings[0].start)
    if not lengths:
        return None
    if len(lengths) > 1:
        return invalid(
            "several_content_lengths", "RFC 9112 6.3", lengths[1].start, "There is more than one Content-Length field."
        )
    length = declared_length(lengths[0].value)
    if length is None:
        return invalid(
            "bad_content_length",
            "RFC 9112 6.3",
            lengths[0].value_start,
            "Content-Length is not a number of one or more digits.",
        )
    return length


def _judge_coding(version: str, lengths: Sequence[FieldLine], offset: int) -> Refusal:
    if version == "HTTP/1.0":
        return invalid(
            "transfer_encoding_in_http_1_0", "RFC 9112 6.1", offset, "Transfer-Encoding is not defined for HTTP/1.0."
        )
    if lengths:
        return invalid(
            "content_length_and_transfer_encoding",
            "RFC 9112 6.1",
            offset,
            "There are both a Content-Length and a Transfer-Encoding field.",
        )
    return Refusal(
        501,
        "not_implemented",
        "No transfer coding is implemented; send the body with a Content-Length.",
        reason="transfer_encoding",
        rfc="RFC 9112 6.1",
        offset=offset,
    )


def expects_continue(values: Iterable[str]) -> bool:
    """Tell whether ``100-continue`` is a member of these Expect values (RFC 9110 10.1.1; case does not matter)."""
    return any(member.strip(" \t").lower() == "100-continue" for value in values for member in value.split(","))
