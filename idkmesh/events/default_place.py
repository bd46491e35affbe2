"""The place of a store that nobody has named (EV-2.13). A module of its own, so that only who needs it loads it."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def default_store() -> Path:
    """Return ``events.sqlite3`` in the user's state directory for ``idkmesh``. Makes nothing."""
    return Path(platformdirs.user_state_dir("idkmesh", appauthor=False)) / "events.sqlite3"
