"""A real Chromium, watched."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Error, expect, sync_playwright

from tests.ui.support import WAIT, Tower, Watched, running, watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

expect.set_options(timeout=WAIT)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Skip where there is no browser, or one that does not start here."""
    if CHROMIUM is None:
        pytest.skip("needs a chromium: install it, on Debian with apt-get install chromium")
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"needs a chromium that runs: {error.message.splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """Give a context of its own, and fail for whatever its pages complained of."""
    with watching(browser, permissions=["clipboard-read", "clipboard-write"]) as given:
        yield given


@pytest.fixture
def tower(watched: Watched, tmp_path: Path) -> Iterator[Tower]:
    """Give a control tower that runs. Its pages are closed before it ends: they would see the drain."""
    with running(tmp_path / "events.sqlite3") as started:
        yield started
        watched.context.close()
