"""Writes numbered events until it is killed: ``python -m scripts.lib.soak.kill_writer STORE ROUND DESCRIPTOR``.

It ends by itself once nobody reads what it tells.

To the descriptor it writes an empty line when it has the store open, and ``SEQUENCE NUMBER`` for each event that the
recorder has published: committed, by the recorder's own word.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh.clock import SystemClock
from idkmesh.events.envelope import Event
from idkmesh.events.recorder import EventRecorder
from idkmesh.events.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.events.envelope import StoredEvent

KEPT: Final = 20_000
"""Events that the store keeps: far more than one round writes."""
TYPE: Final = "soak.numbered"


def main() -> None:
    """Write until the end."""
    path, number, descriptor = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    clock = SystemClock()
    chance = random.Random(number)  # noqa: S311  a course that can be had again
    written = 0

    def acknowledge(events: Sequence[StoredEvent]) -> None:
        nonlocal written
        lines = []
        for event in events:
            written += 1
            lines.append(b"%d %d\n" % (event.sequence, written))
        try:
            os.write(descriptor, b"".join(lines))
        except BrokenPipeError:  # who was to kill this one was killed: the next round has the store for itself
            os._exit(1)

    def replaced(_epoch: str, _position: int) -> None:
        os.write(descriptor, b"replaced\n")

    recorder = EventRecorder(
        path,
        Retention(event_retention_count=KEPT),
        clock=clock,
        published=acknowledge,
        replaced=replaced,
        log=lambda line, _level: print(line, file=sys.stderr),
        source="/soak",
    )
    recorder.start()
    os.write(descriptor, b"\n")
    emitted = 0
    while True:
        for _ in range(chance.randrange(1, 300)):
            emitted += 1
            data = {"round": number, "number": emitted, "text": "x" * chance.randrange(200)}
            recorder.emit(Event(type=TYPE, source="/soak", time=clock.utc(), data=data))
        recorder.flush(30)


if __name__ == "__main__":
    main()
