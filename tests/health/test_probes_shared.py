"""Deadlines, words and abandoned calls: what holds for every kind."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING

import pytest

from idkmesh.health.model import KINDS, Command, Disk, Dns, File, Grpc, Http, Outcome, Python, Tcp
from idkmesh.health.probes import probe_for
from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import Deadline, DeadlineProbe, Said, judged
from idkmesh.health.probes.words import ProbeError, could_not_run, failed, word_of
from tests.health.probe_support import CLOCK, COULD_NOT_RUN, FAILED, OK, descriptors, result_of, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.health.model import ProbeSpec

SPECS: tuple[ProbeSpec, ...] = (
    Tcp(host="localhost", port=1),
    Http(url="http://localhost"),
    Command(argv=("true",)),
    Dns(name="localhost"),
    File(path="/"),
    Disk(path="/", min_free_bytes=1),
    Grpc(target="localhost:1"),
    Python(target="os:getpid"),
)


def within(seconds: float) -> Deadline:
    return Deadline(CLOCK, CLOCK.monotonic() + seconds)


class Saying(DeadlineProbe):
    """A probe that raises what it is given, or returns it."""

    def __init__(self, answer: str | Exception) -> None:
        super().__init__()
        self.answer = answer

    def attempt(self, deadline: Deadline) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Give what abandoned calls wait for, and open it in the end."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_every_kind_has_its_probe() -> None:
    """HL-4.1: each of the eight kinds has a probe of its own."""
    assert [type(spec) for spec in SPECS] == list(KINDS.values())
    assert len({type(probe_for(spec)) for spec in SPECS}) == len(KINDS)


@pytest.mark.parametrize(
    ("latency", "outcome", "expected"),
    [
        (0.5, OK, (OK, "word")),
        (1.0, OK, (OK, "word")),
        (1.1, OK, (FAILED, "timeout")),
        (1.1, FAILED, (FAILED, "word")),
        (1.1, COULD_NOT_RUN, (COULD_NOT_RUN, "word")),
    ],
)
def test_a_late_success_is_a_timeout(latency: float, outcome: Outcome, expected: tuple[Outcome, str]) -> None:
    """HL-4.1: a dependency that answers after the deadline has not succeeded inside it."""
    assert judged(Said(outcome, "word"), latency, 1.0) == expected


def test_details_are_fit_to_be_shown() -> None:
    """HL-4.12: at most 200 characters, printable ones."""
    assert judged(Said(FAILED, "a\x1b[31m\nb\x00" + "x" * 500), 0, 1).detail == "a?[31m?b?" + "x" * 191


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("well", (OK, "well")),
        (failed("refused"), (FAILED, "refused")),
        (could_not_run("closed"), (COULD_NOT_RUN, "closed")),
        (ConnectionRefusedError(errno.ECONNREFUSED, "secret"), (FAILED, "refused")),
        (TimeoutError("secret"), (FAILED, "timeout")),
        (KeyError("secret"), (COULD_NOT_RUN, "a fault of the probe: KeyError")),
    ],
)
def test_run_raises_nothing(answer: str | Exception, expected: tuple[Outcome, str]) -> None:
    """HL-4.2: whatever happens is one of three outcomes, and a fault of ours says nothing of the dependency."""
    assert said(Saying(answer)) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ECONNREFUSED, (FAILED, "refused")),
        (errno.ENETUNREACH, (FAILED, "unreachable")),
        (errno.ECONNRESET, (FAILED, "reset")),
        (errno.ENOENT, (FAILED, "missing")),
        (errno.ESTALE, (FAILED, "input or output error")),
        (errno.EMFILE, (COULD_NOT_RUN, "the machine is full")),
        (errno.EACCES, (COULD_NOT_RUN, "permission denied")),
        (errno.ENOTCONN, (FAILED, "error ENOTCONN")),
        (99_999, (FAILED, "error unknown")),
    ],
)
def test_words_of_the_system(number: int, expected: tuple[Outcome, str]) -> None:
    """HL-4.2, HL-4.12: an error is the dependency's or ours, in our words, without the path or address in its text."""
    error = word_of(OSError(number, "secret", "/secret"))
    assert (error.outcome, error.detail) == expected


def test_a_call_gives_its_value_or_its_error() -> None:
    """HL-4.11: a call that comes back in time is as if it had been made here, and leaves no thread."""
    calls, before = Abandonable("test-call"), threading.active_count()
    assert calls.call(lambda: 7, within(5)) == 7
    with pytest.raises(ZeroDivisionError):
        calls.call(lambda: 1 // 0, within(5))
    with pytest.raises(SystemExit):
        calls.call(sys.exit, within(5))
    assert (calls.out, threading.active_count()) == (False, before)


def test_a_call_that_is_out_is_waited_for_by_nobody(gate: threading.Event) -> None:
    """HL-4.11: it is abandoned once, counted once, has the only thread, and the next call is made when it is back."""
    calls, before = Abandonable("test-call"), threading.active_count()
    with pytest.raises(ProbeError, match=r"^timeout$") as timeout:
        calls.call(gate.wait, within(0.05))
    assert timeout.value.outcome is FAILED
    for _ in range(20):
        with pytest.raises(ProbeError, match=r"^still waiting$") as waiting:
            calls.call(gate.wait, within(5))
        assert waiting.value.outcome is COULD_NOT_RUN
    assert (calls.out, threading.active_count()) == (True, before + 1)
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "test-call")
    assert thread.daemon
    gate.set()
    thread.join(30)
    assert calls.call(lambda: 7, within(5)) == 7


def test_an_error_is_let_go() -> None:
    """HL-4.11: what a call or a run raises is gone with it, and all that its frames hold."""

    class FoundError(Exception):
        pass

    found: list[weakref.ref[FoundError]] = []

    def fail() -> None:
        error = FoundError()
        found.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    class Calling(DeadlineProbe):
        calls = Abandonable("test-call")

        def attempt(self, deadline: Deadline) -> str:
            self.calls.call(fail, deadline)
            return "well"

    gc.disable()
    try:
        assert said(Calling()) == (COULD_NOT_RUN, "a fault of the probe: FoundError")
        assert found[0]() is None
    finally:
        gc.enable()


def test_no_thread_is_left_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.2: a machine that is out of threads says nothing of the dependency."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert said(Python(target="os:getpid")) == (COULD_NOT_RUN, "the machine is out of threads")


@pytest.mark.parametrize(("limit", "spared"), [(256, 64), (1024, 64), (100, 25)])
def test_calls_that_may_hang_leave_descriptors_to_who_answers(limit: int, spared: int) -> None:
    """HL-1.1, HL-4.11: before a lookup or somebody's code takes one of the last descriptors, it is not called."""
    resource = pytest.importorskip("resource")
    specs = (Dns(name="localhost"), Tcp(host="localhost", port=1), Python(target="os:getppid"))
    probes = [probe_for(spec) for spec in specs]
    asked = probe_for(Tcp(host="127.0.0.1", port=1))  # an address is looked up nowhere, and its socket is not kept
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
        while limit - descriptors() >= spared - 1:
            taken.append(os.dup(0))
        results = {said(probe, 1) for probe in probes}
        address = said(asked, 1)
        for _ in range(8):
            os.close(taken.pop())
        after = {said(probe, 1) for probe in probes}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
    assert results == {(COULD_NOT_RUN, "the machine is full")}
    assert address == (FAILED, "refused")
    assert after == {(OK, "resolved"), (FAILED, "refused"), (FAILED, "returned int")}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__.lower())
def test_without_a_descriptor(spec: ProbeSpec) -> None:
    """HL-4.2: a process without a free descriptor never calls a dependency well, and raises nothing."""
    resource = pytest.importorskip("resource")
    probe = probe_for(spec)
    probe.run(1, CLOCK)  # what is loaded once is loaded
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 64, limits[1]))
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        result = result_of(probe, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
    if isinstance(spec, Disk):  # takes none
        assert result.outcome is OK
    else:
        assert result.outcome is not OK
