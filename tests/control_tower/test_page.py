"""The page in a browser: what a person reads in each state. Skipped where there is no chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.control_tower_ui import ControlTowerServer
from idkmesh.service_runtime import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module", autouse=True)
def browser(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where there is no browser, or one that does not start here."""
    try:
        Page("about:blank", tmp_path_factory.mktemp("browser"), 0.1)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("needs a chromium that runs")


class Page:
    """What a browser shows some seconds, of the page's own clock, after it has opened the link."""

    def __init__(self, link: str, profile: Path, seconds: float) -> None:
        budget = f"--virtual-time-budget={seconds * 1000:.0f}"
        command = [CHROMIUM or "chromium", *FLAGS, f"--user-data-dir={profile}", budget, "--dump-dom", link]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        self.document = done.stdout

    @property
    def state(self) -> str:
        found = re.search(r'data-state="([a-z]+)"', self.document)
        assert found
        return found[1]

    def text(self, name: str) -> str:
        """Return the text of the element with an id."""
        found = re.search(rf'id="{name}"[^>]*>([^<]*)<', self.document)
        assert found, self.document
        return found[1]

    @property
    def stale(self) -> bool:
        return 'class="facts stale"' in self.document


def refuse_everything(server: ControlTowerServer) -> None:
    """Move the one authority that the guard accepts."""
    server._guard.listen_at("127.0.0.1", 1)


def take_every_place(server: ControlTowerServer) -> None:
    """Leave no place, the one of this request included."""
    server.limiter._limit = 0


def end(server: ControlTowerServer) -> None:
    """End the service; from a thread of its own, since the end waits for this handler."""

    def close() -> None:
        server.shutdown()
        server.server_close()

    threading.Thread(target=close, name="end-of-the-test").start()


def fail(server: ControlTowerServer) -> None:
    raise RuntimeError


CASES: list[tuple[str, Callable[[ControlTowerServer], object], str, str]] = [
    ("draining", lambda server: server.begin_drain(), "Draining", "finishes what it has admitted"),
    ("overloaded", take_every_place, "Overloaded", "Every place is taken"),
    ("lost", end, "No answer", "does not answer"),
    ("unexpected", refuse_everything, "Unexpected answer", "answered 403 forbidden_host: This Host is not"),
    ("unexpected", fail, "Unexpected answer", "answered 500 internal_error: "),
]


@pytest.mark.parametrize("case", CASES, ids=["drain", "full", "lost", "403", "500"])
def test_states(
    start: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, Callable[[ControlTowerServer], object], str, str],
) -> None:
    """CT-8.2: after one good answer each state says what it is, and the figures are grey and have an age."""
    state, then, verdict, told = case
    status = ControlTowerServer.status
    asked: list[ControlTowerServer] = []

    def tell(server: ControlTowerServer) -> dict[str, Any]:
        document = status(server)
        asked.append(server)
        if len(asked) > 1:
            then(server)
        return document

    monkeypatch.setattr(ControlTowerServer, "status", tell)
    with start() as tower:
        page = Page(tower.server.link, tmp_path, 7)
    assert page.state == state
    assert page.text("verdict") == verdict
    assert told in page.text("explanation")
    assert page.stale
    assert re.fullmatch(r"Figures are [3-9] s old", page.text("age"))


def test_wrong_token(tower: Any, tmp_path: Path) -> None:
    """CT-8.2: a link of another start says so, and nothing is shown that did not come."""
    for number, link in enumerate((f"{tower.server.origin}/#token={'x' * 40}", tower.server.origin)):
        page = Page(link, tmp_path / str(number), 3)
        assert page.state == "locked"
        assert "Open the link" in page.text("explanation")
        assert page.text("age") == ""


def test_ready_and_asked_each_second(start: Any, tmp_path: Path) -> None:
    """CT-8.2, CT-5.4: figures are live, nothing reserved has a gauge, and what is reserved is called so."""
    with start() as tower:
        page = Page(tower.server.link, tmp_path, 5.5)
        admitted = tower.server.usage().admitted_total
    assert page.state == "ready"
    assert not page.stale
    assert page.text("age") == "Updated each second"
    assert 'id="gauge-in_flight"' in page.document
    assert "gauge-sse" not in page.document
    reserved = [setting for setting in SETTINGS if "sse" in setting.name]
    assert page.document.count(", reserved<") == len(reserved)
    files = 4  # the page, its script, its style, its icon
    assert 4 <= admitted - files <= 8
