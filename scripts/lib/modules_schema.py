"""Makes the published JSON Schemas of modules and of a readiness command alone, of the table that judges both."""

from __future__ import annotations

from idkmesh.workloads.module_rules import DECLARATION, READINESS
from scripts.lib import schema_of

BEYOND = (
    "What no schema can say (names that stand once, classes that are there, a lease that lasts until the next pass) is "
    "refused by whoever reads the file."
)
FILES = {
    "modules.json": (
        DECLARATION,
        "modules",
        "Declaration of modules",
        BEYOND,
    ),
    "readiness.json": (
        READINESS,
        "readiness",
        "Readiness command",
        "Its patterns are read alike by Python and by ECMA 262 with the flags u and v.",
    ),
}


def text(name: str) -> str:
    """Return a file's text."""
    return schema_of.text(schema_of.document(*FILES[name]))


def main() -> None:
    """Write the files."""
    for name in FILES:
        (schema_of.DIRECTORY / name).write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
