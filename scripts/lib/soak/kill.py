"""kill -9 of the writer of an event store: what was committed is there, once; the file is whole.

A process that is killed leaves what the system has of its writes: a cut of power is not tried here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import select
import sqlite3
import subprocess
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.events.retention import Retention
from idkmesh.events.store import MAX_BATCH, EventStore
from scripts.bench.benchlib.processes import REPOSITORY, environment, python
from scripts.lib.soak.kill_writer import KEPT, TYPE
from scripts.lib.soak.state import Step

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from scripts.lib.soak.state import State

STEP: Final = 5
EARLY: Final = 5
"""Every so many-th writer is killed while it starts and opens the store."""
OPEN_SECONDS: Final = 60.0
PIPE_BYTES: Final = 1 << 20


class Found(NamedTuple):
    """An event of the store: its sequence, type, round, and number in the round."""

    sequence: int
    type: str
    round: int
    number: int


def told(data: bytes) -> dict[int, int]:
    """Return what a writer has told: number by sequence. A line that was cut off says nothing."""
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")
    return {int(sequence): int(number) for sequence, _, number in (line.partition(b" ") for line in lines) if number}


def faults(found: Sequence[Found], acknowledged: Mapping[int, int], position: int, number: int) -> list[str]:
    """Return what is wrong with the events that a round has left after a position."""
    wrong = []
    there = {each.sequence: each for each in found}
    for sequence, written in acknowledged.items():
        each = there.get(sequence)
        if each is None:
            wrong.append(f"round {number}: event {written} was committed as {sequence} and is lost")
        elif each.number != written:
            wrong.append(f"round {number}: {sequence} was committed as event {written} and is event {each.number}")
    for index, each in enumerate(found):
        expected = Found(position + 1 + index, TYPE, number, index + 1)
        if each != expected:
            wrong.append(f"round {number}: {each} stands where {expected} was to be: lost, doubled or out of order")
            break
    return wrong


def steps(state: State, folder: Path) -> Generator[Step, None, None]:
    """Kill writers, a few rounds a step."""
    path = folder / "events.sqlite3"
    position, _, notes = _read(path, None)
    first = state.done
    while first < state.goal:
        wrong = list(notes)
        stored = acknowledged = early = 0
        many = min(STEP, state.goal - first)
        for number in range(first, first + many):
            data, opened = _killed(path, number)
            known = told(data)
            was = position
            position, found, notes = _read(path, position)
            wrong += [*notes, *faults(found, known, was, number), *_integrity(path)]
            if b"replaced" in data:
                wrong.append(f"round {number}: the recorder has told of another store")
            stored += len(found)
            acknowledged += len(known)
            early += not opened
        notes = []
        first += many
        sums = {"events found": stored, "events acknowledged": acknowledged, "killed while opening": early}
        yield Step(count=many, sums=sums, wrong=wrong, highs={"store bytes, highest": path.stat().st_size})


def _killed(path: Path, number: int) -> tuple[bytes, bool]:
    """Run a writer and kill it at a random moment; return what it told, and whether it had the store open."""
    chance = random.Random(number)  # noqa: S311  moments, not secrets
    read, write = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(read, "rb", buffering=0) as pipe, contextlib.ExitStack() as ends:
        with os.fdopen(write, "wb", buffering=0):
            command = python("-S", "-m", "scripts.lib.soak.kill_writer", str(path), str(number), str(write))
            writer = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=environment({"PYTHONPATH": str(REPOSITORY)}),
                pass_fds=[write],
                stdin=subprocess.DEVNULL,
            )
        ends.callback(writer.wait)
        ends.callback(writer.kill)
        if number % EARLY == 0:
            time.sleep(chance.uniform(0.02, 0.25))
        else:
            select.select([pipe], [], [], OPEN_SECONDS)
            time.sleep(chance.uniform(0.0, 0.08))
        writer.kill()
        writer.wait()
        data = pipe.readall()
    return data, data.startswith(b"\n")


def _read(path: Path, position: int | None) -> tuple[int, list[Found], list[str]]:
    """Open the store, and return its newest sequence, what follows a position (None: nothing), and what is told."""
    store = EventStore.open(path, retention=Retention(event_retention_count=KEPT), now=datetime.now(UTC))
    with contextlib.closing(store):
        wrong = [f"on opening: {text}" for _, text in store.opened.notes]
        newest = store.bounds().newest
        found: list[Found] = []
        at = newest if position is None else position
        while batch := store.read(at, MAX_BATCH, {}).events:
            at = batch[-1].sequence
            data = [json.loads(each.data) for each in batch]
            pairs = zip(batch, data, strict=True)
            found += [Found(each.sequence, each.type, it.get("round", -1), it.get("number", -1)) for each, it in pairs]
        return max(newest, at), found, wrong


def _integrity(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    return [] if rows == ["ok"] else [f"integrity_check: {rows}"]
