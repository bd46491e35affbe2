from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from idkmesh.workloads.calls import AT_ONCE, Call, Calls, Ended

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0


class Gate:
    """Calls that wait until they are let go, and what is known of how many ran at once."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.lock = threading.Lock()
        self.running: list[str] = []
        self.most: dict[str, int] = {}

    def call(self, key: str, group: str = "a", limit: float = PATIENCE, *, hangs: bool = False) -> Call[str]:
        def run() -> str:
            with self.lock:
                self.running.append(group)
                for each in {group, "all"}:
                    count = len(self.running) if each == "all" else self.running.count(group)
                    self.most[each] = max(self.most.get(each, 0), count)
            try:
                if hangs:
                    self.opened.wait(PATIENCE)
                return key
            finally:
                with self.lock:
                    self.running.remove(group)

        return Call(key, group, run, limit)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    before = set(threading.enumerate())
    yield gate
    gate.opened.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)


def make(calls: Calls, *each: Call[str]) -> dict[str, Ended]:
    answers = calls.make(each, go=lambda: True, beat=lambda: None)
    return {str(key): answer.ended for (_, key), answer in answers.items()}


def test_answers(gate: Gate) -> None:
    """AR-3.2: each call has its answer: what it returned, or what it raised, SystemExit too."""

    def fails() -> str:
        raise SystemExit(3)

    calls = [gate.call("one"), Call("two", "a", fails, PATIENCE)]
    answers = Calls().make(calls, go=lambda: True, beat=lambda: None)
    assert answers["a", "one"].value == "one"
    assert answers["a", "two"].ended is Ended.RAISED
    assert isinstance(answers["a", "two"].error, SystemExit)


def test_eight_at_once(gate: Gate) -> None:
    """AR-3.2: at most eight run at once over all, and eight do."""
    threading.Timer(0.2, gate.opened.set).start()
    make(Calls(), *(gate.call(str(number), hangs=True) for number in range(40)))
    assert gate.most["all"] == AT_ONCE == 8


def test_a_hanging_group_leaves_a_slot(gate: Gate) -> None:
    """AR-3.2: a driver that hangs costs the instances of others nothing: their calls end while it still hangs."""
    hanging = [gate.call(f"h{number}", "hung", hangs=True) for number in range(20)]
    quick = [gate.call(f"q{number}", "quick") for number in range(50)]

    ended: list[str] = []

    def beat() -> None:
        if len(ended) == len(quick):
            gate.opened.set()

    def counted(call: Call[str]) -> Call[str]:
        def run() -> str:
            ended.append(call.group)
            return call.function()

        return replace(call, function=run)

    answers = Calls().make([*hanging, *map(counted, quick)], go=lambda: True, beat=beat)
    assert {answer.ended for answer in answers.values()} == {Ended.RETURNED}
    assert len(answers) == 70


def test_given_up(gate: Gate) -> None:
    """AR-3.2: a call that overstays is given up, and nothing more is asked under its key until it has come back."""
    calls = Calls()
    assert make(calls, gate.call("x", limit=0.05, hangs=True)) == {"x": Ended.GIVEN_UP}
    assert calls.out == 1
    assert make(calls, gate.call("x"), gate.call("y")) == {"x": Ended.REFUSED, "y": Ended.RETURNED}
    gate.opened.set()
    for thread in threading.enumerate():
        if thread.name == "workload-a":
            thread.join(PATIENCE)
    assert make(calls, gate.call("x")) == {"x": Ended.RETURNED}
    assert calls.out == 0


def test_a_group_leaves_few_threads_behind(gate: Gate) -> None:
    """AR-3.2: with as many of a group out as run at once, nothing is asked of it; others go on as before."""
    calls = Calls()
    hanging = [gate.call(str(number), "hung", limit=0.05, hangs=True) for number in range(100)]
    ended = make(calls, *hanging)
    assert list(ended.values()).count(Ended.GIVEN_UP) == AT_ONCE
    assert list(ended.values()).count(Ended.REFUSED) == 100 - AT_ONCE
    assert make(calls, gate.call("fine", "other"), gate.call("new", "hung")) == {
        "fine": Ended.RETURNED,
        "new": Ended.REFUSED,
    }


def test_nothing_begins_after_no(gate: Gate) -> None:
    """AR-6.3: once the lease is lost nothing is started; what runs is finished."""
    begun: list[str] = []
    answers = Calls().make(
        [Call(number, "a", lambda: begun.append("x"), PATIENCE) for number in range(10)],
        go=lambda: len(begun) < 1,
        beat=lambda: None,
    )
    ended = [answer.ended for answer in answers.values()]
    assert ended.count(Ended.RETURNED) == len(begun)
    assert ended.count(Ended.NOT_BEGUN) == 10 - len(begun) > 0


def test_out_of_threads(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    """AR-3.2: where the system starts no thread the call has an error, and the pass goes on."""

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    assert make(Calls(), gate.call("x")) == {"x": Ended.RAISED}


def test_it_beats_while_calls_hang(gate: Gate) -> None:
    """AR-4.3: whoever waits for calls shows that it lives."""
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 4:
            gate.opened.set()

    Calls().make([gate.call("x", hangs=True)], go=lambda: True, beat=beat)
    assert len(beats) >= 4
