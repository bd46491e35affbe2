"""Events stand below every service: what keeps them knows of none."""

from __future__ import annotations

from tests.test_imports import LAYERS, layer_of, modules, within

EVENTS = ("idkmesh.events",)


def test_events_import_no_service() -> None:
    """Rule: service_runtime <- events <- control tower <- command line, never the other way, and never httpd."""
    above = [
        (module, name)
        for module, names in modules().items()
        for name in names
        if within(module, EVENTS) and not within(name, EVENTS) and (layer_of(name) or 0) > 0
    ]
    assert above == []
    assert within("idkmesh.control_tower.api", LAYERS[2])
