"""What a real LXD 5.0.2 has answered, as the bytes of a response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "samples"


def response(status: int, body: object) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content)


def recorded(name: str) -> bytes:
    sample = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return response(sample["http_status"], sample["body"])


def metadata(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))["body"]["metadata"]
