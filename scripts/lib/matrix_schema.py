"""Makes the published JSON Schema of the probe matrix of the table that its loader judges by. A test compares them."""

from __future__ import annotations

from idkmesh.health.matrix_rules import MATRIX
from scripts.lib import schema_of

FILE = schema_of.DIRECTORY / "probe-matrix.json"


BEYOND = (
    "What no schema can say (names that stand once, timing that can come about) is refused by whoever reads the file."
)


def text() -> str:
    """Return the file's text."""
    return schema_of.text(schema_of.document(MATRIX, "probe-matrix", "Probe matrix", BEYOND))


def main() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
