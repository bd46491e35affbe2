"""What one read of a store gives, and where it ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.clock import SystemClock
from idkmesh.events.recorder import EventRecorder
from idkmesh.events.retention import Retention
from idkmesh.events.store import READ_BYTES
from tests.events.support import ManualClock, event, events, numbers, opened

if TYPE_CHECKING:
    from pathlib import Path


def test_a_read_ends_by_size(path: Path) -> None:
    """EV-2.10, EV-4.1: with the event that makes it max_bytes; the position is that event's, and nothing is skipped."""
    with opened(path) as store:
        store.append([event(number, data={"text": "x" * 10_000}) for number in range(10)])
        seen: list[int] = []
        position = 0
        while position < 10:
            batch = store.read(position, 200, {}, max_bytes=25_000)
            assert len(batch.events) == 3 or batch.position == 10
            assert batch.epoch == store.epoch
            seen += [each.sequence for each in batch.events]
            position = batch.position
        assert seen == list(range(1, 11))
        back = store.read(11, 200, {}, descending=True, max_bytes=25_000)
        assert ([each.sequence for each in back.events], back.position) == ([10, 9, 8], 8)


def test_the_largest_events_end_a_read_early(path: Path) -> None:
    """EV-4.1: a page holds 1 MiB of data, and one event more at most."""
    with opened(path) as store:
        for number in range(40):
            store.append([event(number, data={"text": "x" * 60_000})])
        batch = store.read(0, 200, {})
        assert batch.position == batch.events[-1].sequence < 40
        assert READ_BYTES <= sum(len(each.data) for each in batch.events) < READ_BYTES + 65_536


def test_a_recorder_is_started_once(path: Path) -> None:
    """EV-2.2: a second writing thread would store what waits twice, so there is none."""
    recorder = EventRecorder(
        path,
        Retention(),
        clock=ManualClock(),
        published=lambda _events: None,
        replaced=lambda _epoch, _position: None,
        log=lambda _line, _level: None,
    )
    recorder.start()
    with pytest.raises(RuntimeError, match="once"):
        recorder.start()
    for each in events(20):
        recorder.emit(each)
    assert recorder.flush(30)
    assert numbers(recorder.read(0, 200, {}).events) == list(range(1, 21))
    recorder.close(5)
    with pytest.raises(RuntimeError, match="once"):
        recorder.start()


def test_a_recorder_that_is_closed_is_not_started(path: Path) -> None:
    """EV-3.3: whichever of the two comes first, what was emitted is written once, by one thread."""
    for _ in range(20):
        published: list[int] = []
        recorder = EventRecorder(
            path,
            Retention(),
            clock=SystemClock(),
            published=lambda found, published=published: published.extend(each.sequence for each in found),  # type: ignore[misc]
            replaced=lambda _epoch, _position: None,
            log=lambda _line, _level: None,
        )
        for each in events(30):
            recorder.emit(each)
        closing = threading.Thread(target=recorder.close, args=(5,))
        closing.start()
        recorder.start()
        closing.join(30)
        assert len(published) == len(set(published)) == 30
        assert recorder._thread is None or not recorder._thread.is_alive()
