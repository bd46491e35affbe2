"""One question over HTTP, one answer, within a time: how the shop's programs ask each other, and who looks at them."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import TYPE_CHECKING, Any, Final

from idkmesh.demo.settings import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS: Final = 1.0


def answered(  # noqa: PLR0913  what http.client takes, with the port and the time
    port: int,
    method: str,
    path: str,
    body: bytes | str | None = None,
    fields: Mapping[str, str] | None = None,
    *,
    seconds: float = SECONDS,
) -> tuple[int, bytes]:
    """Return status and content of the answer. Raises ``OSError`` where there is none in time."""
    with contextlib.closing(http.client.HTTPConnection(ADDRESS, port, timeout=seconds)) as client:
        try:
            client.request(method, path, body, fields or {})
            answer = client.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{type(error).__name__} from port {port}") from None


def ask(port: int, method: str, path: str, body: Any = None, *, seconds: float = SECONDS) -> Any:  # noqa: ANN401  JSON
    """Return the answer's JSON. Raises ``OSError`` where there is none, or one that is no 200."""
    status, content = answered(port, method, path, None if body is None else json.dumps(body), seconds=seconds)
    if status != http.client.OK:
        raise ConnectionError(f"status {status} from port {port}")
    return json.loads(content)
