"""The resources that tell of workloads, as rows of the control tower's table (AR-7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.control_tower.list_routes import Named, Told, list_and_item_routes
from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import json_body
from idkmesh.workloads.document import module_document, module_list_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from idkmesh.httpd.routes import Route
    from idkmesh.workloads.reading import WorkloadReading

PATH: Final = "/api/v1/modules"
NAME_FORM: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""The form of a module's name, as a declaration may write it (AR-2.5)."""

NO_SUCH: Final = Refusal(404, "not_found", "The declaration has no module of this name.")


def module_routes(reading: Callable[[], WorkloadReading]) -> tuple[Route, Route]:
    """Return the routes of clause AR-7.2."""

    def every() -> bytes:
        known = reading()
        return json_body(module_list_document(known.snapshot, known.now))

    def one(name: str) -> dict[str, Any] | None:
        known = reading()
        return module_document(known.snapshot, name, known.now)

    summary = "What is known of each module's instances, and who may restart them."
    told = (
        Told("listModules", summary, "All of them.", "module-list.json"),
        Told("getModule", "What is known of one module's instances.", "The module.", "module.json"),
    )
    return list_and_item_routes(PATH, every, Named(NAME_FORM, one, NO_SUCH), told)
