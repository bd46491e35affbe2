"""How the shop's programs ask each other: one request, one answer, within a time."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import Any, Final

from idkmesh.demo.settings import ADDRESS

SECONDS: Final = 1.0


def ask(port: int, method: str, path: str, body: Any = None, *, seconds: float = SECONDS) -> Any:  # noqa: ANN401  JSON
    """Return the answer's JSON. Raises ``OSError`` where there is none, or one that is no 200."""
    with contextlib.closing(http.client.HTTPConnection(ADDRESS, port, timeout=seconds)) as client:
        try:
            client.request(method, path, None if body is None else json.dumps(body))
            answer = client.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{type(error).__name__} from port {port}") from None
        if answer.status != http.client.OK:
            raise ConnectionError(f"status {answer.status} from port {port}")
        return json.loads(content)
