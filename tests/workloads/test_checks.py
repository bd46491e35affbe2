from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.workloads.checks import MAX_REASON_CHARACTERS, combine, nothing, probe_of_run
from idkmesh.workloads.model import Probe, Run, RunEnd, Word

P, F, N = (Probe(word, "") for word in Word)


def test_exit_status_zero_passes() -> None:
    """AR-3.3: exit status 0 passes, and its time is kept."""
    assert probe_of_run(Run(RunEnd.EXITED, "exited", 0, 0.25)) == Probe(Word.PASSES, "exit status 0", 0.25)


@pytest.mark.parametrize("code", [1, 2, 125, 128, 137, 143, 255])
def test_any_other_status_fails(code: int) -> None:
    """AR-3.3: any other exit status fails, and one of a signal."""
    probe = probe_of_run(Run(RunEnd.EXITED, "exited", code))
    assert probe.word is Word.FAILS
    assert str(code if code <= 128 else code - 128) in probe.reason


@pytest.mark.parametrize("code", [126, 127])
def test_not_started_says_nothing(code: int) -> None:
    """AR-3.3: 126 and 127 are what a missing program looks like: they say nothing, so it restarts nobody."""
    assert probe_of_run(Run(RunEnd.EXITED, "exited", code)).word is Word.NOTHING


def test_the_other_ends() -> None:
    """AR-3.3, AR-3.4: the limit fails; could not run says nothing; what is left behind says nothing and is told."""
    assert probe_of_run(Run(RunEnd.TIMED_OUT, "", None, 3.0)).word is Word.FAILS
    could_not = probe_of_run(Run(RunEnd.COULD_NOT_RUN, "no daemon"))
    assert (could_not.word, could_not.reason, could_not.misdeclared) == (Word.NOTHING, "no daemon", False)
    left = probe_of_run(Run(RunEnd.LEFT_BEHIND, "sleep lives"))
    assert (left.word, left.reason, left.misdeclared) == (Word.NOTHING, "sleep lives", True)
    assert probe_of_run(Run(RunEnd.EXITED, "lost", None)).word is Word.NOTHING


def test_every_end_has_a_reason() -> None:
    """AR-1.2: what says nothing is told, so it has words even where a driver has none."""
    ends = [probe_of_run(Run(end, "", None)) for end in RunEnd]
    assert all(probe.reason for probe in ends)


@given(st.text())
def test_reasons_are_bounded(text: str) -> None:
    """AR-1.2: a reason is one printable line of bounded length, whatever a driver gives."""
    reason = nothing(text).reason
    assert len(reason) <= MAX_REASON_CHARACTERS
    assert reason.isprintable()


@pytest.mark.parametrize(
    ("port", "command", "word", "detail"),
    [
        (F, P, Word.FAILS, "port check failing"),
        (F, N, Word.FAILS, "port check failing"),
        (F, None, Word.FAILS, "port check failing"),
        (P, F, Word.FAILS, "readiness command failing"),
        (N, F, Word.FAILS, "readiness command failing"),
        (None, F, Word.FAILS, "readiness command failing"),
        (F, F, Word.FAILS, "port check and readiness command failing"),
        (P, P, Word.PASSES, "port check and readiness command passing"),
        (P, N, Word.PASSES, "port check passing"),
        (P, None, Word.PASSES, "port check passing"),
        (N, P, Word.PASSES, "readiness command passing"),
        (None, P, Word.PASSES, "readiness command passing"),
        (N, N, Word.NOTHING, "nothing known"),
        (None, N, Word.NOTHING, "nothing known"),
        (N, None, Word.NOTHING, "nothing known"),
        (None, None, Word.NOTHING, "nothing known"),
    ],
)
def test_combined(port: Probe | None, command: Probe | None, word: Word, detail: str) -> None:
    """AR-3.6: any failure fails, otherwise any pass passes, and the detail says which check it was."""
    assert combine(port, command) == (word, detail)
