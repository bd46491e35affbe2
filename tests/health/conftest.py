"""What tests of probes may ask for."""

from __future__ import annotations

import os
import signal
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.health.probe_support import processes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def word(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a word by which the processes of a test are found, whatever becomes of them, and end them."""
    word = uuid.uuid4().hex
    monkeypatch.setenv("PROBE_TEST", word)
    yield word
    for process in processes(word):
        os.kill(process, signal.SIGKILL)
