"""Releases as a document writes them: rows with their endpoints (RT-6.1, RT-5.8). Pure.

A fault is told by its place alone: what stands there may be what nobody is to see (RT-11.5).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from idkmesh.strict_json import no_constant, once
from idkmesh.topology.model import MAX_ENDPOINTS, Endpoint, Snapshot, Target, endpoint_of, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION: Final = "0.1"
KIND: Final = "idkmesh-releases"

_DOCUMENT: Final = frozenset({"schema_version", "kind", "releases"})
_ROW: Final = ("agentId", "agentCardVersion", "releaseId", "endpoints")


def read_releases(content: bytes) -> Mapping[Target, Snapshot]:
    """Return what a document declares. Raises ``ValueError`` with one line for a document that is none (RT-6.1)."""
    try:
        document = _READ(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: is no JSON; it may be half of a file") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(document, dict) or document.keys() != _DOCUMENT:
        raise ValueError("must be an object with exactly schema_version, kind and releases")
    if document["schema_version"] != SCHEMA_VERSION or document["kind"] != KIND:
        raise ValueError(f'must have schema_version "{SCHEMA_VERSION}" and kind "{KIND}"')
    return releases_of(document["releases"])


def releases_of(rows: object) -> dict[Target, Snapshot]:
    """Return what rows declare, as JSON has them. Raises ``ValueError``, which names the row, for any fault of one."""
    if not isinstance(rows, list):
        raise ValueError("releases: must be a list")  # noqa: TRY004  whoever reads a document catches one error
    found: dict[Target, Snapshot] = {}
    for number, row in enumerate(rows):
        try:
            target, snapshot = _row(row)
        except ValueError as error:
            raise ValueError(f"releases[{number}]: {error}") from None
        if target in found:
            raise ValueError(f"releases[{number}]: this release stands above already")
        found[target] = snapshot
    return found


def _row(row: object) -> tuple[Target, Snapshot]:
    if not isinstance(row, dict) or row.keys() != set(_ROW):
        raise ValueError(f"must be an object with exactly {', '.join(_ROW)}")
    *names, endpoints = (row[name] for name in _ROW)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("agentId, agentCardVersion and releaseId must be texts")
    if not isinstance(endpoints, list) or len(endpoints) > MAX_ENDPOINTS:
        raise ValueError(f"endpoints: must be a list of at most {MAX_ENDPOINTS}")
    return Target(*names), snapshot_of([_endpoint(number, text) for number, text in enumerate(endpoints)])


def _endpoint(number: int, text: object) -> Endpoint:
    try:
        return endpoint_of(text)
    except ValueError as error:
        raise ValueError(f"endpoints[{number}]: {error}") from None


_READ: Final = json.JSONDecoder(
    object_pairs_hook=once,
    parse_constant=no_constant,
    parse_int=float,  # none has a place in it, and Python's own refuses more than 4,300 digits with advice of its own
).decode
