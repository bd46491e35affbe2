"""Every fault that a request head can have: its stable reason, what the client is told, and the clause it breaks.

One table, so that a reason is named once and the list of them is complete. A test holds the judges to it: each reason
is given by some input, and no judge gives another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from idkmesh.httpd.request import Refusal


class Fault(NamedTuple):
    """One row: ``message`` may have a ``{limit}``; 400 ``invalid_request`` is the answer where a row says no other."""

    rfc: str
    message: str
    status: int = 400
    code: str = "invalid_request"


def _too_large(message: str) -> Fault:
    return Fault("RFC 6585 5", message, 431, "headers_too_large")


FAULTS: Final[dict[str, Fault]] = {
    # line ends (HS-3.4)
    "bare_lf": Fault("RFC 9112 2.2", "A line ends in LF instead of CRLF."),
    "bare_cr": Fault("RFC 9112 2.2", "There is a CR without its LF."),
    "empty_line": Fault("RFC 9112 2.2", "There is an empty line before the request line."),
    "tls_to_plain_port": Fault("RFC 9112 3", "This is a TLS handshake, and the port speaks plain HTTP."),
    # the request line (HS-3.1, HS-3.2)
    "request_line_too_long": Fault("RFC 9112 3", "The request line is longer than {limit} bytes.", 414, "uri_too_long"),
    "bad_method": Fault("RFC 9110 9.1", "The method contains a byte that no token may contain."),
    "bad_spacing": Fault("RFC 9112 3", "The request line is not three words with exactly one space between them."),
    "no_target": Fault("RFC 9112 3", "The request line has no target."),
    "no_version": Fault("RFC 9112 3", "The request line has no version, and HTTP/0.9 is not spoken."),
    "bad_version": Fault("RFC 9112 2.3", 'The version is not "HTTP/", a digit, a dot and a digit.'),
    "unsupported_version": Fault(
        "RFC 9110 2.5", "This server speaks HTTP/1.0 and HTTP/1.1 only.", 505, "version_not_supported"
    ),
    # the target (HS-3.3)
    "bad_target_byte": Fault("RFC 9112 3.2", "The target contains a byte that is not visible ASCII."),
    "fragment_in_target": Fault("RFC 9112 3.2", 'The target contains "#".'),
    "bad_target_form": Fault("RFC 9112 3.2", "The target is neither an absolute path nor an http or https URI."),
    "asterisk_without_options": Fault("RFC 9112 3.2.4", 'The target "*" is for OPTIONS only.'),
    "bad_connect_target": Fault("RFC 9112 3.2.3", "The target of CONNECT is not a host and a port."),
    "userinfo_in_target": Fault("RFC 9110 4.2.4", "The target contains user information."),
    "bad_target_authority": Fault("RFC 9110 4.2.1", "The target's host or port is missing or not valid."),
    # field lines (HS-3.5, HS-3.9)
    "space_before_first_field": Fault("RFC 9112 2.2", "The line after the request line starts with white space."),
    "folded_line": Fault("RFC 9112 5.2", "A field is folded over two lines."),
    "empty_field_name": Fault("RFC 9112 5", "A field has no name."),
    "no_colon": Fault("RFC 9112 5", "A field line has no colon."),
    "space_before_colon": Fault("RFC 9112 5.1", "There is white space between a field's name and its colon."),
    "bad_field_name": Fault("RFC 9110 5.1", "A field name contains a byte that no token may contain."),
    "control_in_value": Fault("RFC 9110 5.5", "A field value contains a control byte."),
    "field_line_too_long": _too_large("A header line is longer than {limit} bytes."),
    "too_many_fields": _too_large("There are more than {limit} header fields."),
    "header_too_large": _too_large("The header lines together are longer than {limit} bytes."),
    # the head as a whole (HS-3.6 to HS-3.8)
    "no_host": Fault("RFC 9112 3.2", "An HTTP/1.1 request needs a Host field."),
    "several_hosts": Fault("RFC 9112 3.2", "There is more than one Host field."),
    "bad_host": Fault("RFC 9112 3.2", "The Host field is not a host with an optional port."),
    "several_content_lengths": Fault("RFC 9112 6.3", "There is more than one Content-Length field."),
    "bad_content_length": Fault("RFC 9112 6.3", "Content-Length is not a number of one or more digits."),
    "content_in_connect": Fault("RFC 9110 9.3.6", "A CONNECT request has no content, and this one declares some."),
    "transfer_encoding_in_http_1_0": Fault("RFC 9112 6.1", "Transfer-Encoding is not defined for HTTP/1.0."),
    "content_length_and_transfer_encoding": Fault(
        "RFC 9112 6.1", "There are both a Content-Length and a Transfer-Encoding field."
    ),
    "transfer_encoding": Fault(
        "RFC 9112 6.1",
        "No transfer coding is implemented; send the body with a Content-Length.",
        501,
        "not_implemented",
    ),
}


def refuse(reason: str, offset: int, *, limit: int = 0) -> Refusal:
    """Return the refusal for the row ``reason``, broken at byte ``offset`` of the request."""
    fault = FAULTS[reason]
    return Refusal(
        fault.status, fault.code, fault.message.format(limit=limit), reason=reason, rfc=fault.rfc, offset=offset
    )
