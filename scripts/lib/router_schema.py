"""Makes the published JSON Schema of a router's configuration of the table that its loader judges by."""

from __future__ import annotations

from idkmesh.router.router_rules import ROUTER
from scripts.lib import schema_of

FILE = schema_of.DIRECTORY / "router.json"

BEYOND = (
    "What no schema can say (ids, tokens and releases that stand once, files that give a token, hosts that are one) is "
    "refused by whoever reads the file."
)


def text() -> str:
    """Return the file's text."""
    return schema_of.text(schema_of.document(ROUTER, "router", "Configuration of a router", BEYOND))


def main() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
