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

_SCRIPT: Final = "text/javascript; charset=utf-8"
_STYLE: Final = "text/css; charset=utf-8"

STATIC_TYPES: Final[Mapping[str, str]] = {
    "announce.js": _SCRIPT,
    "api.js": _SCRIPT,
    "app.js": _SCRIPT,
    "backoff.js": _SCRIPT,
    "boot.js": _SCRIPT,
    "copy.js": _SCRIPT,
    "css/api.css": _STYLE,
    "css/base.css": _STYLE,
    "css/controls.css": _STYLE,
    "css/dependencies.css": _STYLE,
    "css/events.css": _STYLE,
    "css/forced.css": _STYLE,
    "css/frame.css": _STYLE,
    "css/inspect.css": _STYLE,
    "css/locked.css": _STYLE,
    "css/overview.css": _STYLE,
    "css/parts.css": _STYLE,
    "css/topology.css": _STYLE,
    "css/workloads.css": _STYLE,
    "dom.js": _SCRIPT,
    "feed.js": _SCRIPT,
    "format.js": _SCRIPT,
    "icon.svg": "image/svg+xml",
    "keys.js": _SCRIPT,
    "link.js": _SCRIPT,
    "pages/answer.js": _SCRIPT,
    "pages/api.js": _SCRIPT,
    "pages/beats.js": _SCRIPT,
    "pages/check_fields.js": _SCRIPT,
    "pages/check_form.js": _SCRIPT,
    "pages/check_judge.js": _SCRIPT,
    "pages/check_words.js": _SCRIPT,
    "pages/check_yaml.js": _SCRIPT,
    "pages/declared_modules.js": _SCRIPT,
    "pages/dependencies.js": _SCRIPT,
    "pages/dependency_detail.js": _SCRIPT,
    "pages/dependency_parts.js": _SCRIPT,
    "pages/dependency_row.js": _SCRIPT,
    "pages/dependency_verdict.js": _SCRIPT,
    "pages/dependency_words.js": _SCRIPT,
    "pages/event_detail.js": _SCRIPT,
    "pages/events.js": _SCRIPT,
    "pages/examples.js": _SCRIPT,
    "pages/history.js": _SCRIPT,
    "pages/inspect.js": _SCRIPT,
    "pages/list_detail.js": _SCRIPT,
    "pages/list_page.js": _SCRIPT,
    "pages/list_parts.js": _SCRIPT,
    "pages/live_feed.js": _SCRIPT,
    "pages/locked.js": _SCRIPT,
    "pages/module_detail.js": _SCRIPT,
    "pages/module_row.js": _SCRIPT,
    "pages/module_verdict.js": _SCRIPT,
    "pages/module_words.js": _SCRIPT,
    "pages/overview.js": _SCRIPT,
    "pages/overview_parts.js": _SCRIPT,
    "pages/readiness_schema.js": _SCRIPT,
    "pages/request_bytes.js": _SCRIPT,
    "pages/router_words.js": _SCRIPT,
    "pages/timeline.js": _SCRIPT,
    "pages/topology.js": _SCRIPT,
    "pages/topology_detail.js": _SCRIPT,
    "pages/topology_history.js": _SCRIPT,
    "pages/topology_row.js": _SCRIPT,
    "pages/topology_spans.js": _SCRIPT,
    "pages/topology_strip.js": _SCRIPT,
    "pages/topology_verdict.js": _SCRIPT,
    "pages/topology_words.js": _SCRIPT,
    "pages/workloads.js": _SCRIPT,
    "poll.js": _SCRIPT,
    "registry.js": _SCRIPT,
    "router.js": _SCRIPT,
    "session.js": _SCRIPT,
    "shell.js": _SCRIPT,
    "sse.js": _SCRIPT,
    "state.js": _SCRIPT,
    "stream.js": _SCRIPT,
    "tabs.js": _SCRIPT,
    "topology_events.js": _SCRIPT,
    "words.js": _SCRIPT,
    "workload_events.js": _SCRIPT,
}
"""Every file under ``/static/`` and its type: nothing else is ever served."""

SCHEMA_NAMES: Final = (
    "agent-invocation.json",
    "control-tower-status.json",
    "dependency-list.json",
    "dependency.json",
    "error.json",
    "event-list.json",
    "event.json",
    "http-request-inspection.json",
    "inspection.json",
    "module-list.json",
    "module.json",
    "modules-check.json",
    "modules.json",
    "node-observation.json",
    "probe-matrix.json",
    "probe-run.json",
    "probe.json",
    "problem.json",
    "readiness-inspection.json",
    "readiness.json",
    "rehearsal.json",
    "router-topology-status.v1.json",
    "router.json",
    "settings.json",
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
