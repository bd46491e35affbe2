"""Reads a probe matrix for the rules: through the loader that services use, in one place."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from idkmesh.inspection.findings import Place
from idkmesh.inspection.rules_matrix import Placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.inspection.documents import Node

KIND = "idkmesh-probe-matrix"


class MatrixRefused(Exception):  # noqa: N818  a verdict on a file, no fault of the program
    """The loader refuses a matrix: ``told`` has the place, what is wrong and the mend of each."""

    def __init__(self, told: list[tuple[Place, str, str]]) -> None:
        super().__init__("; ".join(what for _, what, _ in told))
        self.told = told


def read_matrix(text: str, source: str, document: Node) -> Placed:
    """Return a matrix with the places of its keys. Raises :class:`MatrixRefused`."""
    # Imported here: a manifest is inspected without loading any part of health but its values.
    loader: Any = importlib.import_module("idkmesh.health.matrix_file")
    try:
        matrix = loader.load_matrix(text, source)
    except loader.MatrixError as error:
        told = [(Place(each.line, each.column), _sentence(each.what), _sentence(each.mend)) for each in error.findings]
        raise MatrixRefused(told) from None
    return Placed(matrix, dict(_positions(document)))


def _sentence(text: str) -> str:
    """Begin with a capital, unless the text begins with a key of the file."""
    begun = text if "_" in text.partition(" ")[0] else f"{text[:1].upper()}{text[1:]}"
    return begun if begun.endswith("?") else f"{begun}."


def _positions(document: Node) -> Iterator[tuple[tuple[str | int, ...], Place]]:
    """Give the path of each key and item, and where it stands."""
    waiting: list[tuple[tuple[str | int, ...], Node]] = [((), document)]
    while waiting:
        path, node = waiting.pop()
        for key, (name, value) in node.entries.items():
            yield (*path, key), name.place
            waiting.append(((*path, key), value))
        for number, item in enumerate(node.items):
            yield (*path, number), item.place
            waiting.append(((*path, number), item))
