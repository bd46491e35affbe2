"""Two resources that belong together, a list and one item of it by its name, as rows of the control tower's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from idkmesh.httpd.responses import JSON, Response, json_body
from idkmesh.httpd.routes import Access, Answer, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from idkmesh.httpd.request import Refusal, Request


class Told(NamedTuple):
    """What the table says of one of the two: ``meaning`` is that of its answer, ``schema`` a published file."""

    operation: str
    summary: str
    meaning: str
    schema: str


class Named(NamedTuple):
    """How an item is asked for: the form of its name in a path, its document or None, and the answer where it is None.

    ``document`` must not wait.
    """

    form: str
    document: Callable[[str], Mapping[str, Any] | None]
    no_such: Refusal


def list_and_item_routes(
    path: str, every: Callable[[], bytes], item: Named, told: tuple[Told, Told]
) -> tuple[Route, Route]:
    """Return the routes of ``path``, whose body is that of ``every``, and of the items below it."""

    def all_of_them(_request: Request, _body: bytes) -> Response:
        return Response(200, (), every())

    def one_of_them(request: Request, _body: bytes) -> Response | Refusal:
        document = item.document(request.path.rpartition("/")[2])
        return item.no_such if document is None else Response(200, (), json_body(document))

    of_all, of_one = told
    return (
        Route(
            method="GET",
            path=path,
            access=Access.API,
            endpoint=all_of_them,
            operation=of_all.operation,
            summary=of_all.summary,
            answers=(Answer(status=200, meaning=of_all.meaning, content_types=(JSON,), schema=of_all.schema),),
        ),
        Route(
            method="GET",
            path=path + "/{name}",
            access=Access.API,
            endpoint=one_of_them,
            operation=of_one.operation,
            summary=of_one.summary,
            name_form=item.form,
            answers=(Answer(status=200, meaning=of_one.meaning, content_types=(JSON,), schema=of_one.schema),),
        ),
    )
