"""What the front itself refuses, as values. The rules' refusals are made where the rule stands."""

from __future__ import annotations

from typing import Final

from idkmesh.httpd.request_rules import Refusal
from idkmesh.service_runtime import Denial

DENIED: Final = {
    Denial.OVERLOADED: Refusal(
        503, "overloaded", "As many requests are being handled as the limit allows; try again later.", retryable=True
    ),
    Denial.DRAINING: Refusal(503, "shutting_down", "The service is shutting down; try again later.", retryable=True),
}
OUT_OF_MEMORY: Final = Refusal(
    503, "overloaded", "The buffers that all connections share are full; try again later.", retryable=True
)
TOO_MANY_STREAMS: Final = Refusal(
    503, "too_many_streams", "As many event streams are open as max_sse_clients allows.", retryable=True
)
NO_THREAD: Final = Refusal(503, "overloaded", "No thread could be started for the request.", retryable=True)
BODY_TOO_LARGE: Final = Refusal(413, "payload_too_large", "The declared body is larger than max_body_bytes.")
TOO_SLOW: Final = Refusal(408, "request_timeout", "The body was not complete in time.", retryable=True)
INCOMPLETE: Final = Refusal(
    400,
    "invalid_request",
    "The client ended its side before the request was complete.",
    reason="incomplete_request",
    rfc="RFC 9112 8",
)
INTERNAL_ERROR: Final = Refusal(
    500, "internal_error", "The handler of this request failed. The log names the request id."
)
