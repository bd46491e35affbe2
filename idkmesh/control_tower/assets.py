"""The files that the package carries for the control tower: its page and the published schemas.

They are read through the package's loader, so a wheel, a zip and a source tree serve the same.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE: Final = "index.html"

STATIC_TYPES: Final[Mapping[str, str]] = {
    "icon.svg": "image/svg+xml",
    "style.css": "text/css; charset=utf-8",
    "tower.js": "text/javascript; charset=utf-8",
}
"""Every file under ``/static/`` and its type: nothing else is ever served."""

SCHEMA_NAMES: Final = (
    "control-tower-status.json",
    "error.json",
    "http-request-inspection.json",
    "probe.json",
    "problem.json",
)
"""Every published schema."""


def static_bytes(name: str) -> bytes:
    """Return a file of the page."""
    return (files("idkmesh.control_tower") / "static" / name).read_bytes()


def schema_bytes(name: str) -> bytes:
    """Return a published schema as the package carries it."""
    return (files("idkmesh") / "schemas" / name).read_bytes()


def schema(name: str) -> dict[str, Any]:
    """Return a published schema as data."""
    document: dict[str, Any] = json.loads(schema_bytes(name))
    return document
