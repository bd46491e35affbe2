"""The store: products and orders in a file. ``python -m idkmesh.demo.shop.store PORT``."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from typing import TYPE_CHECKING, Any, Final

from idkmesh.demo.shop.answering import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = "shop.sqlite3"
PRODUCTS: Final = ({"name": "tea", "price": 4}, {"name": "bread", "price": 3}, {"name": "honey", "price": 7})


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(FILE, timeout=1.0)) as base, base:
        base.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, product TEXT, done INTEGER DEFAULT 0)")
        yield base


def products(_: Any) -> Any:  # noqa: ANN401  JSON
    """Return what is sold."""
    return PRODUCTS


def order(wanted: Any) -> Any:  # noqa: ANN401  JSON
    """Take an order, and return its number."""
    with _opened() as base:
        return {"order": base.execute("INSERT INTO orders (product) VALUES (?)", (str(wanted),)).lastrowid}


def take(_: Any) -> Any:  # noqa: ANN401  JSON
    """Mark the oldest open order as done and return its number, None where there is none."""
    with _opened() as base:
        row = base.execute("SELECT min(id) FROM orders WHERE done = 0").fetchone()
        base.execute("UPDATE orders SET done = 1 WHERE id = ?", row)
        return {"order": row[0]}


def health(_: Any) -> Any:  # noqa: ANN401  JSON
    """Read the file: that the process listens says nothing of it."""
    with _opened() as base:
        return {"orders": base.execute("SELECT count(*) FROM orders").fetchone()[0]}


def main() -> None:
    """Serve until SIGTERM."""
    answers = {"GET /products": products, "POST /orders": order, "POST /take": take, "GET /health": health}
    serve(int(sys.argv[1]), answers)


if __name__ == "__main__":
    main()
