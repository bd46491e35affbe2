"""One row a rule: what is refused, with which status, code, reason, clause and byte; and what is accepted as what."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from idkmesh.httpd.head_faults import FAULTS
from idkmesh.httpd.request_rules import HeadLimits, HeadReader, Refusal, Request, judge_head, read_head

LIMITS = HeadLimits()
HERE = b"<!>"  # stands in a row where the rule is broken, and is taken out before the row is judged
HOST = b"Host: h\r\n"


class Row(NamedTuple):
    """A refused request; ``marked`` contains HERE at the offset that the refusal has to name."""

    marked: bytes
    reason: str
    rfc: str
    status: int = 400
    code: str = "invalid_request"


def get(fields: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n"


def line(text: bytes) -> bytes:
    return text + b"\r\nHost: h\r\n\r\n"


def length(value: bytes) -> Row:
    return Row(get(b"Content-Length: <!>" + value + b"\r\n"), "bad_content_length", "RFC 9112 6.3")


def host(value: bytes) -> Row:
    return Row(b"GET / HTTP/1.1\r\nHost: <!>" + value + b"\r\n\r\n", "bad_host", "RFC 9112 3.2")


def not_supported(text: bytes) -> Row:
    return Row(line(text), "unsupported_version", "RFC 9110 2.5", 505, "version_not_supported")


def coding(value: bytes) -> Row:
    field = b"<!>Transfer-Encoding: " + value + b"\r\n"
    return Row(get(field), "transfer_encoding", "RFC 9112 6.1", 501, "not_implemented")


def too_large(marked: bytes, reason: str) -> Row:
    return Row(marked, reason, "RFC 6585 5", 431, "headers_too_large")


REFUSED = {
    # HS-3.1: the request line
    "http/0.9": Row(line(b"GET /<!>"), "no_version", "RFC 9112 3"),
    "http/0.9 with a space": Row(line(b"GET / <!>"), "no_version", "RFC 9112 3"),
    "method alone": Row(line(b"GET<!>"), "no_target", "RFC 9112 3"),
    "method and a space": Row(line(b"GET <!>"), "no_target", "RFC 9112 3"),
    "two spaces after the method": Row(line(b"GET <!> / HTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "two spaces after the target": Row(line(b"GET / <!> HTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "tab after the method": Row(line(b"GET<!>\t/ HTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "tab after the target": Row(line(b"GET /<!>\tHTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "space before the method": Row(line(b"<!> GET / HTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "space after the version": Row(line(b"GET / HTTP/1.1<!> "), "bad_spacing", "RFC 9112 3"),
    "tab after the version": Row(line(b"GET / HTTP/1.1<!>\t"), "bad_spacing", "RFC 9112 3"),
    "space in the target": Row(line(b"GET /a b<!> HTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "two-digit minor": Row(line(b"GET / <!>HTTP/1.10"), "bad_version", "RFC 9112 2.3"),
    "no dot": Row(line(b"GET / <!>HTTP/11"), "bad_version", "RFC 9112 2.3"),
    "no minor": Row(line(b"GET / <!>HTTP/1"), "bad_version", "RFC 9112 2.3"),
    "major without minor": Row(line(b"GET / <!>HTTP/2"), "bad_version", "RFC 9112 2.3"),
    "lower-case version": Row(line(b"GET / <!>http/1.1"), "bad_version", "RFC 9112 2.3"),
    "sign in the version": Row(line(b"GET / <!>HTTP/+1.1"), "bad_version", "RFC 9112 2.3"),
    "comma in the version": Row(line(b"GET / <!>HTTP/1,1"), "bad_version", "RFC 9112 2.3"),
    "other protocol": Row(line(b"OPTIONS * <!>RTSP/1.0"), "bad_version", "RFC 9112 2.3"),
    "NUL after the version": Row(line(b"GET / <!>HTTP/1.1\0"), "bad_version", "RFC 9112 2.3"),
    "http/2.0": not_supported(b"GET / <!>HTTP/2.0"),
    "http/3.1": not_supported(b"GET / <!>HTTP/3.1"),
    "http/0.9 spelled out": not_supported(b"GET / <!>HTTP/0.9"),
    "http/2 preface": Row(
        b"PRI * <!>HTTP/2.0\r\n\r\nSM\r\n\r\n", "unsupported_version", "RFC 9110 2.5", 505, "version_not_supported"
    ),
    "request line too long": Row(
        b"GET /" + b"a" * 65_529 + b"<!>a HTTP/1.1\r\n\r\n", "request_line_too_long", "RFC 9112 3", 414, "uri_too_long"
    ),
    "70 kB target (HTTP-14 d)": Row(
        line(b"GET /" + b"a" * 65_529 + b"<!>" + b"a" * 4_471 + b" HTTP/1.1"),
        "request_line_too_long",
        "RFC 9112 3",
        414,
        "uri_too_long",
    ),
    # HS-3.2: the method
    "no method": Row(line(b"<!> / HTTP/1.1"), "bad_spacing", "RFC 9112 3"),
    "brackets in the method": Row(line(b"GE<!>[T / HTTP/1.1"), "bad_method", "RFC 9110 9.1"),
    "colon in the method": Row(line(b"GET<!>:x / HTTP/1.1"), "bad_method", "RFC 9110 9.1"),
    "NUL in the method": Row(line(b"<!>\0GET / HTTP/1.1"), "bad_method", "RFC 9110 9.1"),
    "obs-text in the method": Row(line(b"G<!>\xc9T / HTTP/1.1"), "bad_method", "RFC 9110 9.1"),
    "byte order mark": Row(line(b"<!>\xef\xbb\xbfGET / HTTP/1.1"), "bad_method", "RFC 9110 9.1"),
    "tls": Row(b"<!>\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls_to_plain_port", "RFC 9112 3"),
    # HS-3.3: the target
    "NUL in the target": Row(line(b"GET /a<!>\0b HTTP/1.1"), "bad_target_byte", "RFC 9112 3.2"),
    "DEL in the target": Row(line(b"GET /a<!>\x7f HTTP/1.1"), "bad_target_byte", "RFC 9112 3.2"),
    "obs-text in the target": Row(line(b"GET /<!>\xff HTTP/1.1"), "bad_target_byte", "RFC 9112 3.2"),
    "UTF-8 in the query": Row(line(b"GET /?q=<!>\xc3\xa9 HTTP/1.1"), "bad_target_byte", "RFC 9112 3.2"),
    "fragment": Row(line(b"GET /a<!>#b HTTP/1.1"), "fragment_in_target", "RFC 9112 3.2"),
    "fragment in the query": Row(line(b"GET /?a<!>#b HTTP/1.1"), "fragment_in_target", "RFC 9112 3.2"),
    "fragment alone": Row(line(b"GET <!># HTTP/1.1"), "fragment_in_target", "RFC 9112 3.2"),
    "relative target": Row(line(b"GET <!>a/b HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "query alone": Row(line(b"GET <!>?a HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "backslash target": Row(line(b"GET <!>\\evil.example HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "asterisk with GET": Row(line(b"GET <!>* HTTP/1.1"), "asterisk_without_options", "RFC 9112 3.2.4"),
    "asterisk and more": Row(line(b"OPTIONS <!>*a HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "authority with GET": Row(line(b"GET <!>h:80 HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "path with CONNECT": Row(line(b"CONNECT <!>/ HTTP/1.1"), "bad_connect_target", "RFC 9112 3.2.3"),
    "URI with CONNECT": Row(line(b"CONNECT <!>http://h:80/ HTTP/1.1"), "bad_connect_target", "RFC 9112 3.2.3"),
    "CONNECT without a port": Row(line(b"CONNECT <!>h HTTP/1.1"), "bad_connect_target", "RFC 9112 3.2.3"),
    "CONNECT with an empty port": Row(line(b"CONNECT <!>h: HTTP/1.1"), "bad_connect_target", "RFC 9112 3.2.3"),
    "CONNECT to an address without a port": Row(
        line(b"CONNECT <!>[::1] HTTP/1.1"), "bad_connect_target", "RFC 9112 3.2.3"
    ),
    "other scheme": Row(line(b"GET <!>ftp://h/ HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "scheme without authority": Row(line(b"GET <!>http:/a HTTP/1.1"), "bad_target_form", "RFC 9112 3.2"),
    "empty authority": Row(line(b"GET http://<!>/a HTTP/1.1"), "bad_target_authority", "RFC 9110 4.2.1"),
    "empty authority and query": Row(line(b"GET http://<!>?a HTTP/1.1"), "bad_target_authority", "RFC 9110 4.2.1"),
    "authority that is a port": Row(line(b"GET http://<!>:80/ HTTP/1.1"), "bad_target_authority", "RFC 9110 4.2.1"),
    "port too large in the target": Row(
        line(b"GET http://<!>h:65536/ HTTP/1.1"), "bad_target_authority", "RFC 9110 4.2.1"
    ),
    "backslash in the authority": Row(line(b"GET http://<!>h\\@e/ HTTP/1.1"), "userinfo_in_target", "RFC 9110 4.2.4"),
    "user information": Row(line(b"GET HTTP://<!>u:p@h/ HTTP/1.1"), "userinfo_in_target", "RFC 9110 4.2.4"),
    # HS-3.4: line ends
    "bare LF after the request line": Row(b"GET / HTTP/1.1<!>\nHost: h\r\n\r\n", "bare_lf", "RFC 9112 2.2"),
    "bare LF after a field": Row(b"GET / HTTP/1.1\r\nHost: h<!>\n\r\n", "bare_lf", "RFC 9112 2.2"),
    "bare LF for the end": Row(b"GET / HTTP/1.1\r\nHost: h\r\n<!>\n", "bare_lf", "RFC 9112 2.2"),
    "bare LF everywhere": Row(b"GET / HTTP/1.1<!>\nHost: h\n\n", "bare_lf", "RFC 9112 2.2"),
    "bare LF first": Row(b"<!>\nGET / HTTP/1.1\r\n\r\n", "bare_lf", "RFC 9112 2.2"),
    "bare CR after the request line": Row(b"GET / HTTP/1.1<!>\rHost: h\r\n\r\n", "bare_cr", "RFC 9112 2.2"),
    "bare CR in the target": Row(line(b"GET /<!>\rx HTTP/1.1"), "bare_cr", "RFC 9112 2.2"),
    "bare CR in a value (HTTP-07 a)": Row(get(b"Visible: a<!>\rX-Token: b\r\n"), "bare_cr", "RFC 9112 2.2"),
    "CR CR LF": Row(get(b"A: b<!>\r\r\n"), "bare_cr", "RFC 9112 2.2"),
    "CR CR LF for the end": Row(b"GET / HTTP/1.1\r\nHost: h\r\n<!>\r\r\n", "bare_cr", "RFC 9112 2.2"),
    "LF CR": Row(b"GET / HTTP/1.1\r\nHost: h<!>\n\r\n\r", "bare_lf", "RFC 9112 2.2"),
    "empty line first": Row(b"<!>\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "empty_line", "RFC 9112 2.2"),
    "two empty lines first": Row(b"<!>\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "empty_line", "RFC 9112 2.2"),
    # HS-3.5: field lines
    "space before the colon (HTTP-07 b)": Row(
        get(b"X-A<!> : 1\r\nOrigin: http://evil\r\nContent-Length: 5\r\n"), "space_before_colon", "RFC 9112 5.1"
    ),
    "tab before the colon": Row(get(b"X-A<!>\t: 1\r\n"), "space_before_colon", "RFC 9112 5.1"),
    "spaces before the colon": Row(get(b"Content-Length<!> \t : 1\r\n"), "space_before_colon", "RFC 9112 5.1"),
    "folded line (HTTP-07 c)": Row(get(b"X-A: 1\r\n<!> 2\r\n"), "folded_line", "RFC 9112 5.2"),
    "folded with a tab": Row(get(b"X-A: 1\r\n<!>\tB: 2\r\n"), "folded_line", "RFC 9112 5.2"),
    "fold of nothing": Row(get(b"X-A: 1\r\n<!> \r\n"), "folded_line", "RFC 9112 5.2"),
    "space before the first field": Row(
        b"GET / HTTP/1.1\r\n<!> Host: h\r\n\r\n", "space_before_first_field", "RFC 9112 2.2"
    ),
    "tab before the first field": Row(
        b"GET / HTTP/1.1\r\n<!>\tHost: h\r\n\r\n", "space_before_first_field", "RFC 9112 2.2"
    ),
    "no colon (HTTP-07 d)": Row(get(b"<!>X-A\r\n"), "no_colon", "RFC 9112 5"),
    "no colon but spaces": Row(get(b"<!>X A 1\r\n"), "no_colon", "RFC 9112 5"),
    "NUL in a value (HTTP-07 e)": Row(get(b"X-A: a<!>\0b\r\n"), "control_in_value", "RFC 9110 5.5"),
    "NUL as the value": Row(get(b"X-A:<!>\0\r\n"), "control_in_value", "RFC 9110 5.5"),
    "ESC in a value": Row(get(b"X-A: <!>\x1b[31m\r\n"), "control_in_value", "RFC 9110 5.5"),
    "vertical tab in a value": Row(get(b"X-A: a<!>\x0b\r\n"), "control_in_value", "RFC 9110 5.5"),
    "DEL in a value": Row(get(b"X-A: a<!>\x7f\r\n"), "control_in_value", "RFC 9110 5.5"),
    "empty name (HTTP-07 f)": Row(get(b"<!>: x\r\n"), "empty_field_name", "RFC 9112 5"),
    "NUL in a name": Row(get(b"X<!>\0A: 1\r\n"), "bad_field_name", "RFC 9110 5.1"),
    "brackets in a name": Row(get(b"X<!>[A]: 1\r\n"), "bad_field_name", "RFC 9110 5.1"),
    "space in a name": Row(get(b"X<!> A: 1\r\n"), "bad_field_name", "RFC 9110 5.1"),
    "obs-text in a name": Row(get(b"X<!>\xe9: 1\r\n"), "bad_field_name", "RFC 9110 5.1"),
    "name that is a separator": Row(get(b"<!>(x): 1\r\n"), "bad_field_name", "RFC 9110 5.1"),
    # HS-3.6: Host (HTTP-08)
    "no host": Row(b"GET / HTTP/1.1\r\nA: b\r\n<!>\r\n", "no_host", "RFC 9112 3.2"),
    "no field at all": Row(b"GET / HTTP/1.1\r\n<!>\r\n", "no_host", "RFC 9112 3.2"),
    "no host for a minor of 2": Row(b"GET / HTTP/1.2\r\n<!>\r\n", "no_host", "RFC 9112 3.2"),
    "no host but an absolute URI": Row(b"GET http://h/ HTTP/1.1\r\n<!>\r\n", "no_host", "RFC 9112 3.2"),
    "two hosts": Row(get(b"<!>Host: evil\r\n"), "several_hosts", "RFC 9112 3.2"),
    "two equal hosts": Row(get(b"<!>hOST: h\r\n"), "several_hosts", "RFC 9112 3.2"),
    "two hosts for 1.0": Row(
        b"GET / HTTP/1.0\r\nHost: h\r\nA: b\r\n<!>Host: h\r\n\r\n", "several_hosts", "RFC 9112 3.2"
    ),
    "host with a space": host(b"a b"),
    "host list": host(b"a, b"),
    "host with a port too large": host(b"x:99999"),
    "host with port 65536": host(b"x:65536"),
    "host with a long port": host(b"x:" + b"9" * 5_000),
    "host with a sign in the port": host(b"x:+80"),
    "host with two ports": host(b"x:80:80"),
    "host with an open bracket": host(b"[::1"),
    "host with a close bracket": host(b"::1]"),
    "host without brackets": host(b"::1"),
    "host with a bad address": host(b"[::1::2]"),
    "host with a zone": host(b"[fe80::1%25eth0]"),
    "host with empty brackets": host(b"[]"),
    "host with text after the bracket": host(b"[::1]x"),
    "host with a bad future address": host(b"[v.x]"),
    "host with user information": host(b"u@h"),
    "host with a path": host(b"h/a"),
    "host with a backslash": host(b"h\\a"),
    "host with a bad escape": host(b"h%zz"),
    "host with obs-text": host(b"h\xe9"),
    "host that is a port": host(b":80"),
    "host that is a URI": host(b"http://h"),
    "empty host": host(b""),
    "blank host": Row(b"GET / HTTP/1.1\r\nHost: \t <!>\r\n\r\n", "bad_host", "RFC 9112 3.2"),
    "empty host for 1.0": Row(b"GET / HTTP/1.0\r\nHost:<!>\r\n\r\n", "bad_host", "RFC 9112 3.2"),
    "bad host beside a good URI": Row(b"GET http://h/ HTTP/1.1\r\nHost: <!>a b\r\n\r\n", "bad_host", "RFC 9112 3.2"),
    # HS-3.7: Content-Length (HTTP-01, HTTP-02 a and b)
    "length +5": length(b"+5"),
    "length -1": length(b"-1"),
    "length 0_5": length(b"0_5"),
    "length 0x5": length(b"0x5"),
    "length 5 5": length(b"5 5"),
    "length 5, 6": length(b"5, 6"),
    "length 5, 5": length(b"5, 5"),
    "length 5,5": length(b"5,5"),
    "length empty": length(b""),
    "length 1e1": length(b"1e1"),
    "length 5.0": length(b"5.0"),
    "length 5;": length(b"5;a=b"),
    "length in other digits": length(b"\xd9\xa5"),
    "length as a superscript": length(b"\xb2"),
    "length with a no-break space": length(b"\xa05"),
    "length with a trailing no-break space": length(b"5\xa0"),
    "two lengths": Row(
        get(b"Content-Length: 5\r\n<!>Content-Length: 0\r\n"), "several_content_lengths", "RFC 9112 6.3"
    ),
    "two equal lengths": Row(
        get(b"Content-Length: 5\r\nA: b\r\n<!>content-length: 5\r\n"), "several_content_lengths", "RFC 9112 6.3"
    ),
    "two lengths for 1.0": Row(
        b"POST / HTTP/1.0\r\nContent-Length: 5\r\n<!>Content-Length: 6\r\n\r\n",
        "several_content_lengths",
        "RFC 9112 6.3",
    ),
    "length of a CONNECT": Row(
        line(b"CONNECT h:80 HTTP/1.1\r\nContent-Length: <!>5"), "content_in_connect", "RFC 9110 9.3.6"
    ),
    # HS-3.8: Transfer-Encoding (HTTP-02 c and d)
    "chunked": coding(b"chunked"),
    "chunked twice": coding(b"chunked, chunked"),
    "gzip and chunked": coding(b"gzip, chunked"),
    "xchunked": coding(b"xchunked"),
    "identity": coding(b"identity"),
    "empty coding": coding(b""),
    "two codings": coding(b"chunked\r\nTransfer-Encoding: chunked"),
    "length, then coding": Row(
        get(b"Content-Length: 4\r\n<!>Transfer-Encoding: chunked\r\n"),
        "content_length_and_transfer_encoding",
        "RFC 9112 6.1",
    ),
    "coding, then length": Row(
        get(b"<!>transfer-encoding: chunked\r\nContent-Length: 4\r\n"),
        "content_length_and_transfer_encoding",
        "RFC 9112 6.1",
    ),
    "chunked for 1.0": Row(
        b"POST / HTTP/1.0\r\n<!>Transfer-Encoding: chunked\r\n\r\n", "transfer_encoding_in_http_1_0", "RFC 9112 6.1"
    ),
    "chunked and a length for 1.0": Row(
        b"POST / HTTP/1.0\r\nContent-Length: 4\r\n<!>Transfer-Encoding: chunked\r\n\r\n",
        "transfer_encoding_in_http_1_0",
        "RFC 9112 6.1",
    ),
    # HS-3.9: sizes (HTTP-14)
    "95 fields of 60 kB (HTTP-14 a)": too_large(
        b"GET / HTTP/1.1\r\n"
        + (b"A: " + b"x" * 59_995 + b"\r\n") * 4
        + b"A: "
        + b"x" * 22_139
        + b"<!>"
        + b"x" * 60_000,
        "header_too_large",
    ),
    "101 fields (HTTP-14 b)": too_large(
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 99 + b"<!>" + b"A: b\r\n" * 2, "too_many_fields"
    ),
    "a field of 70 kB (HTTP-14 c)": too_large(
        b"GET / HTTP/1.1\r\nA: " + b"x" * 65_531 + b"<!>" + b"x" * 4_469 + b"\r\n\r\n", "field_line_too_long"
    ),
    "fields without an end (HTTP-14 e)": too_large(
        b"GET / HTTP/1.1\r\n" + (b"A: " + b"x" * 1_019 + b"\r\n") * 99 + b"<!>A: " + b"x" * 1_019, "too_many_fields"
    ),
    # HS-3.10: the first fault decides
    "fault before the host is missed": Row(b"GET / HTTP/1.1\r\nA<!> : b\r\n\r\n", "space_before_colon", "RFC 9112 5.1"),
    "request line before fields": Row(line(b"GET /<!>#a HTTP/1.1\r\nA : b"), "fragment_in_target", "RFC 9112 3.2"),
    "host before lengths": Row(b"POST / HTTP/1.1\r\nContent-Length: x\r\n<!>\r\n", "no_host", "RFC 9112 3.2"),
    "a bare LF before the line is judged": Row(b"GET # HTTP/1.1<!>\n", "bare_lf", "RFC 9112 2.2"),
}
TRAILING = b"GET /second HTTP/1.1\r\nHost: h\r\n\r\n"


def byte_by_byte(data: bytes) -> tuple[Request | Refusal | None, HeadReader]:
    reader = HeadReader(LIMITS)
    verdict = None
    for at in range(len(data)):
        verdict = reader.feed(data[at : at + 1])
        if verdict is not None:
            break
    return verdict, reader


def parts(request: Request) -> tuple[object, ...]:
    return tuple(getattr(request, name) for name in Request.__slots__)


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_refused(row: Row) -> None:
    """HS-3.1 to HS-3.10, HTTP-01, HTTP-02, HTTP-07, HTTP-08, HTTP-14: how each broken rule is told, and its byte."""
    data = row.marked.replace(HERE, b"")
    verdict = read_head(data, LIMITS)
    assert isinstance(verdict, Refusal)
    assert (verdict.status, verdict.code, verdict.reason, verdict.rfc, verdict.offset) == (
        row.status,
        row.code,
        row.reason,
        row.rfc,
        row.marked.index(HERE),
    )
    assert verdict.message
    assert not verdict.retryable


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_refused_however_it_arrives(row: Row) -> None:
    """HS-3.10: the same verdict whole, byte by byte, with trailing bytes, and as a head that is known to be whole."""
    data = row.marked.replace(HERE, b"")
    whole = read_head(data, LIMITS)
    assert byte_by_byte(data)[0] == whole
    assert byte_by_byte(data + TRAILING)[0] == whole
    assert read_head(data + TRAILING, LIMITS) == whole
    assert HeadReader(LIMITS).feed(data) == whole
    assert judge_head(data, LIMITS) == whole


def test_the_table_of_faults_is_complete() -> None:
    """HS-3.x: every reason that can be given has a row here, with the clause that the table of faults gives."""
    assert {row.reason for row in REFUSED.values()} == set(FAULTS)


class Accepted(NamedTuple):
    """An accepted request: its bytes and the attributes of interest."""

    data: bytes
    expected: dict[str, object]


ACCEPTED = {
    "origin-form": Accepted(
        get(b"Accept: */*\r\n"),
        {
            "method": "GET",
            "target": "/",
            "path": "/",
            "query": "",
            "version": "HTTP/1.1",
            "fields": [("Host", "h"), ("Accept", "*/*")],
            "content_length": None,
            "expect_continue": False,
            "authority": "h",
        },
    ),
    "query": Accepted(line(b"GET /a?b=c?d HTTP/1.1"), {"path": "/a", "query": "b=c?d", "target": "/a?b=c?d"}),
    "empty query": Accepted(line(b"GET /a? HTTP/1.1"), {"path": "/a", "query": "", "target": "/a?"}),
    "two slashes (HTTP-11)": Accepted(
        line(b"GET //evil.example/..%2f HTTP/1.1"), {"path": "//evil.example/..%2f", "authority": "h"}
    ),
    "slash and backslash (HTTP-11)": Accepted(line(b"GET /\\evil.example/ HTTP/1.1"), {"path": "/\\evil.example/"}),
    "encoded NUL (HTTP-13)": Accepted(line(b"GET /static/%00 HTTP/1.1"), {"path": "/static/%00"}),
    "bad escape (HTTP-13)": Accepted(line(b"GET /%zz HTTP/1.1"), {"path": "/%zz"}),
    "every visible character": Accepted(
        line(b'GET /!"$%&\'()*+,-./09:;<=>@AZ[\\]^_`az{|}~?!"$%&?/{|}~ HTTP/1.1'),
        {"path": "/!\"$%&'()*+,-./09:;<=>@AZ[\\]^_`az{|}~", "query": '!"$%&?/{|}~'},
    ),
    "absolute-form (HTTP-08)": Accepted(
        b"GET http://evil:8080/a?b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        {"path": "/a", "query": "b", "authority": "evil:8080", "target": "http://evil:8080/a?b"},
    ),
    "absolute-form without a path": Accepted(
        line(b"GET HTTPS://evil HTTP/1.1"), {"path": "/", "query": "", "authority": "evil"}
    ),
    "absolute-form with a query alone": Accepted(
        line(b"GET http://[::1]:80?a?b HTTP/1.1"), {"path": "/", "query": "a?b", "authority": "[::1]:80"}
    ),
    "at sign in the path": Accepted(line(b"GET http://e/a@b HTTP/1.1"), {"path": "/a@b", "authority": "e"}),
    "asterisk": Accepted(line(b"OPTIONS * HTTP/1.1"), {"path": "*", "query": "", "authority": "h"}),
    "CONNECT": Accepted(
        line(b"CONNECT e:443 HTTP/1.1"), {"path": "e:443", "query": "", "authority": "e:443", "target": "e:443"}
    ),
    "CONNECT to an address": Accepted(line(b"CONNECT [::1]:443 HTTP/1.1"), {"authority": "[::1]:443"}),
    "CONNECT without content": Accepted(
        line(b"CONNECT e:443 HTTP/1.1\r\nContent-Length: 0"), {"content_length": 0, "authority": "e:443"}
    ),
    "http/1.0 without host (HTTP-08)": Accepted(
        b"GET /healthz HTTP/1.0\r\n\r\n", {"version": "HTTP/1.0", "fields": [], "authority": ""}
    ),
    "http/1.0 with host": Accepted(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", {"version": "HTTP/1.0", "authority": "a"}),
    "minor above 1": Accepted(line(b"GET / HTTP/1.9"), {"version": "HTTP/1.1"}),
    "lower-case method (HTTP-10)": Accepted(line(b"get / HTTP/1.1"), {"method": "get"}),
    "unknown method (HTTP-10)": Accepted(line(b"!#$%&'*+-.^_`|~09AZ / HTTP/1.1"), {"method": "!#$%&'*+-.^_`|~09AZ"}),
    "no white space in a field": Accepted(b"GET / HTTP/1.1\r\nHost:h\r\n\r\n", {"fields": [("Host", "h")]}),
    "white space around values": Accepted(
        get(b"A: \t b\tc \t\r\nB:\r\nC: \t \r\nD: e \r\n"),
        {"fields": [("Host", "h"), ("A", "b\tc"), ("B", ""), ("C", ""), ("D", "e")]},
    ),
    "only tab at the end": Accepted(get(b"A: b\t\r\n"), {"fields": [("Host", "h"), ("A", "b")]}),
    "obs-text keeps its ends": Accepted(
        get(b"A: \xa0\x85caf\xc3\xa9\xa0\r\n"), {"fields": [("Host", "h"), ("A", "\xa0\x85caf\xc3\xa9\xa0")]}
    ),
    "colons in a value": Accepted(get(b"A: :b:\r\n"), {"fields": [("Host", "h"), ("A", ":b:")]}),
    "any token as a name": Accepted(
        get(b"!#$%&'*+-.^_`|~09aZ: 1\r\n"), {"fields": [("Host", "h"), ("!#$%&'*+-.^_`|~09aZ", "1")]}
    ),
    "a name twice": Accepted(
        get(b"Cookie: a\r\ncookie: b\r\n"), {"fields": [("Host", "h"), ("Cookie", "a"), ("cookie", "b")]}
    ),
    "length": Accepted(get(b"Content-Length: 5\r\n"), {"content_length": 5}),
    "length zero": Accepted(get(b"Content-Length: 0\r\n"), {"content_length": 0}),
    "length with zeros": Accepted(get(b"Content-Length: " + b"0" * 6_000 + b"5\r\n"), {"content_length": 5}),
    "length with white space": Accepted(get(b"Content-Length:\t5 \r\n"), {"content_length": 5}),
    "length of 18 digits": Accepted(get(b"Content-Length: " + b"9" * 18 + b"\r\n"), {"content_length": 10**18 - 1}),
    "length of 20 digits (HTTP-01)": Accepted(
        get(b"Content-Length: 99999999999999999999\r\n"), {"content_length": 2**63}
    ),
    "length that int() refuses": Accepted(get(b"Content-Length: " + b"9" * 5_000 + b"\r\n"), {"content_length": 2**63}),
    "expect (HTTP-05)": Accepted(get(b"Expect: 100-continue\r\n"), {"expect_continue": True}),
    "expect in another case": Accepted(get(b"expect: 100-Continue\r\n"), {"expect_continue": True}),
    "expect in a list": Accepted(get(b"Expect: a=b ,\t100-continue\t, c\r\n"), {"expect_continue": True}),
    "expect in the second field": Accepted(get(b"Expect: a\r\nExpect: 100-continue\r\n"), {"expect_continue": True}),
    "unknown expectation (HTTP-05)": Accepted(get(b"Expect: 200-ok\r\n"), {"expect_continue": False}),
    "expectation with a parameter": Accepted(get(b"Expect: 100-continue=1\r\n"), {"expect_continue": False}),
    "expect of 1024 characters (HS-6.4)": Accepted(
        get(b"Expect: 100-continue" + b"," * 1012 + b"\r\n"), {"expect_continue": True}
    ),
    "expect of more": Accepted(get(b"Expect: 100-continue" + b"," * 1013 + b"\r\n"), {"expect_continue": False}),
    "expect of more in two fields": Accepted(
        get(b"Expect: 100-continue\r\nExpect: " + b"," * 1012 + b"\r\n"), {"expect_continue": False}
    ),
    "expect for 1.0": Accepted(b"GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", {"expect_continue": False}),
    "expect twice for 1.0": Accepted(
        b"GET / HTTP/1.0\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n\r\n", {"expect_continue": False}
    ),
}


@pytest.mark.parametrize("row", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(row: Accepted) -> None:
    """HS-3.1 to HS-3.8, HTTP-01, HTTP-05, HTTP-08, HTTP-10, HTTP-11, HTTP-13: as what each is read, in pieces too."""
    whole = read_head(row.data, LIMITS)
    assert isinstance(whole, tuple)
    request, rest = whole
    assert {name: getattr(request, name) for name in row.expected} == row.expected
    assert (request.head, rest) == (row.data, b"")

    with_trailing = read_head(row.data + TRAILING, LIMITS)
    assert isinstance(with_trailing, tuple)
    assert with_trailing[1] == TRAILING
    slow, reader = byte_by_byte(row.data + TRAILING)
    assert (reader.rest, reader.buffered) == (b"", 0)
    for other in (with_trailing[0], slow, judge_head(row.data, LIMITS)):
        assert isinstance(other, Request)
        assert parts(other) == parts(request)


@pytest.mark.parametrize(
    "host_value",
    [
        "localhost",
        "127.0.0.1:8080",
        "h:",
        "h:0",
        "h:9999",
        "h:59999",
        "h:65535",
        "h:" + "0" * 50 + "80",
        "[::1]",
        "[::1]:65535",
        "[::ffff:1.2.3.4]:",
        "[v1.a:b]",
        "[VF.~]:1",
        "a_b~c.d-e",
        "h%20x",
        "!$&'()*+,;=",
        "999.999.999.999",
    ],
)
def test_hosts(host_value: str) -> None:
    """HS-3.6, RFC 3986 3.2.2: every form of a host with an optional port is accepted and kept as sent."""
    request = judge_head(f"GET / HTTP/1.1\r\nHost: {host_value}\r\n\r\n".encode("latin-1"), LIMITS)
    assert isinstance(request, Request)
    assert request.authority == host_value


def test_get_finds_the_first_value() -> None:
    """Names are looked up in lower case; of several values the first is given, from either judge."""
    request = judge_head(get(b"Cookie: a\r\nX-Empty:\r\ncookie: b\r\n"), LIMITS)
    assert isinstance(request, Request)
    assert request.get("cookie") == "a"
    assert request.get("x-empty", "default") == ""
    assert request.get("accept") is None
    assert request.get("accept", "default") == "default"


def test_repr_shows_no_field() -> None:
    """A request may be logged while its fields carry secrets."""
    request = judge_head(get(b"Authorization: Bearer secret\r\n"), LIMITS)
    assert repr(request) == "<Request GET / HTTP/1.1, 2 fields>"


def test_a_head_without_its_end() -> None:
    """An incomplete head is no verdict: None where more may come, an error where the caller said it was whole."""
    for end in range(len(get(b"A: b\r\n"))):
        data = get(b"A: b\r\n")[:end]
        assert read_head(data, LIMITS) is None
        with pytest.raises(ValueError, match="not complete"):
            judge_head(data, LIMITS)
