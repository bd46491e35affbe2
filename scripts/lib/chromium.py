"""Finds the browser that the programs of this folder look through."""

from __future__ import annotations

import shutil


def chromium() -> str:
    """Return the browser's path. Raises ``FileNotFoundError``."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise FileNotFoundError("needs a chromium: install it, on Debian with apt-get install chromium")
    return found
