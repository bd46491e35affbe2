"""The resources that tell of workloads, as rows of the control tower's table (AR-7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.httpd.request import Refusal
from idkmesh.httpd.responses import JSON, Response, json_body
from idkmesh.httpd.routes import Access, Answer, Route
from idkmesh.workloads.document import module_document, module_list_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.httpd.request import Request
    from idkmesh.workloads.reading import WorkloadReading

PATH: Final = "/api/v1/modules"
NAME_FORM: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""The form of a module's name, as a declaration may write it (AR-2.5)."""

NO_SUCH: Final = Refusal(404, "not_found", "The declaration has no module of this name.")


def module_routes(reading: Callable[[], WorkloadReading]) -> tuple[Route, Route]:
    """Return the routes of clause AR-7.2."""

    def all_of_them(_request: Request, _body: bytes) -> Response:
        known = reading()
        return Response(200, (), json_body(module_list_document(known.snapshot, known.now)))

    def one_of_them(request: Request, _body: bytes) -> Response | Refusal:
        known = reading()
        document = module_document(known.snapshot, request.path.rpartition("/")[2], known.now)
        return NO_SUCH if document is None else Response(200, (), json_body(document))

    return (
        Route(
            method="GET",
            path=PATH,
            access=Access.API,
            endpoint=all_of_them,
            operation="listModules",
            summary="What is known of each module's instances, and who may restart them.",
            answers=(Answer(status=200, meaning="All of them.", content_types=(JSON,), schema="module-list.json"),),
        ),
        Route(
            method="GET",
            path=PATH + "/{name}",
            access=Access.API,
            endpoint=one_of_them,
            operation="getModule",
            summary="What is known of one module's instances.",
            name_form=NAME_FORM,
            answers=(Answer(status=200, meaning="The module.", content_types=(JSON,), schema="module.json"),),
        ),
    )
