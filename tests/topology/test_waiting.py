"""What somebody who waits on a projection may conclude, look by look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.cli.topology import TOPOLOGY_STATES
from idkmesh.topology.model import State
from idkmesh.topology.waiting import Seen, Verdict, Waiting, after_look, rows_of

RELEASE = "echo/1.0.0/r1"
WAIT, YES, RENEWED = Verdict.WAIT, Verdict.YES, Verdict.RENEWED


def row(state: str, revision: int, release: str = RELEASE) -> dict[str, Any]:
    agent, version, name = release.split("/")
    return {
        "agentId": agent, "agentCardVersion": version, "releaseId": name, "state": state, "localRevision": revision,
        "observedAt": "2026-01-02T03:04:05.678Z",
    }  # fmt: skip


def course(waiting: Waiting, *looks: tuple[str, int] | None) -> list[Verdict]:
    """Return the verdict of each look; None is one that does not show the observation."""
    verdicts = []
    for look in looks:
        waiting, verdict = after_look(waiting, [] if look is None else [row(*look)])
        verdicts.append(verdict)
    return verdicts


@pytest.mark.parametrize(
    ("after", "looks", "verdicts"),
    [
        # What is waited for, with and without a revision to be passed.
        (None, [("empty", 1)], [YES]),
        (None, [("populated", 1), ("empty", 2)], [WAIT, YES]),
        (None, [None, ("initializing", 0), ("empty", 1)], [WAIT, WAIT, YES]),
        (1, [("populated", 1), ("empty", 2)], [WAIT, YES]),
        (1, [("populated", 3), ("empty", 4)], [WAIT, YES]),
        (2, [("empty", 2), ("populated", 3), ("empty", 4)], [WAIT, WAIT, YES]),
        (0, [None, ("initializing", 0), ("empty", 1)], [WAIT, WAIT, YES]),
        (None, [("unavailable", 3)], [WAIT]),
        # Without a revision no session counts: whatever it was before, it is so now.
        (None, [("unavailable", 3), ("populated", 1), ("empty", 1)], [WAIT, WAIT, YES]),
        (None, [("populated", 3), None, ("empty", 1)], [WAIT, WAIT, YES]),
        # Another session: what was seen of the former one says nothing any more.
        (5, [("populated", 4)], [RENEWED]),
        (5, [("initializing", 0)], [RENEWED]),
        (5, [("empty", 1)], [RENEWED]),
        (5, [None], [RENEWED]),
        (0, [("populated", 3), ("populated", 2)], [WAIT, RENEWED]),
        (0, [("populated", 3), ("empty", 2)], [WAIT, RENEWED]),
        (0, [("populated", 3), None], [WAIT, RENEWED]),
        (0, [("unavailable", 3), ("populated", 4)], [WAIT, RENEWED]),
        (3, [("unavailable", 3), ("empty", 4)], [WAIT, RENEWED]),
        (None, [("unavailable", 3), ("unavailable", 3)], [WAIT, WAIT]),
        (3, [("populated", 3), ("unavailable", 3), ("empty", 1)], [WAIT, WAIT, RENEWED]),
    ],
)
def test_courses(after: int | None, looks: list[tuple[str, int] | None], verdicts: list[Verdict]) -> None:
    """RT-12.4: the state with a revision above N; renewed is a lower one, a way out of unavailable, or gone."""
    assert course(Waiting(RELEASE, "empty", after), *looks) == verdicts


def test_a_failure_keeps_the_revision() -> None:
    """RT-12.4, RT-2.5: `unavailable` at the revision that is to be passed is what came after it."""
    waiting = Waiting(RELEASE, "unavailable", 3)
    assert course(waiting, ("populated", 3), ("unavailable", 3)) == [WAIT, YES]
    assert course(waiting, ("unavailable", 2)) == [RENEWED]


def test_a_release_id_alone() -> None:
    """RT-12.4: taken where one observation has it; from then on it is that one, whatever namesakes come."""
    waiting = Waiting("r1", "empty")
    assert after_look(waiting, [row("empty", 1, "a/1/r2")]) == (waiting, WAIT)
    assert after_look(waiting, [row("empty", 1, "a/1/r1"), row("empty", 1, "b/1/r1")])[1] is Verdict.AMBIGUOUS
    waiting, verdict = after_look(waiting, [row("populated", 1, "a/1/r1")])
    assert (waiting.seen, verdict) == (Seen("a/1/r1", "populated", 1), WAIT)
    assert after_look(waiting, [row("empty", 9, "b/1/r1"), row("populated", 1, "a/1/r1")])[1] is WAIT
    assert after_look(waiting, [row("empty", 9, "b/1/r1")])[1] is WAIT
    assert after_look(replace(waiting, after=0), [row("empty", 9, "b/1/r1")])[1] is RENEWED


def test_states_that_can_be_waited_for() -> None:
    """RT-12.4, RT-2.1: all of the table."""
    assert tuple(state.value for state in State) == TOPOLOGY_STATES


def test_others_do_not_matter() -> None:
    """RT-12.4: an exact release: another agent, version or release is another one."""
    others = [row("empty", 9, name) for name in ("Echo/1.0.0/r1", "echo/1.0/r1", "echo/1.0.0/r10", "echo/1.0.0/R1")]
    assert after_look(Waiting(RELEASE, "empty"), others)[1] is WAIT


@pytest.mark.parametrize(
    "document",
    [
        None, [], 1, "x", {}, {"observations": []}, {"schemaVersion": "2", "observations": []},
        {"schemaVersion": "1", "observations": {}}, {"schemaVersion": "1", "observations": [1]},
        {"schemaVersion": "1", "observations": [{}]},
        {"schemaVersion": "1", "observations": [row("empty", 1) | {"localRevision": "1"}]},
        {"schemaVersion": "1", "observations": [row("empty", 1) | {"localRevision": True}]},
        {"schemaVersion": "1", "observations": [row("empty", 1) | {"state": None}]},
    ],
)  # fmt: skip
def test_what_is_no_projection(document: object) -> None:
    """RT-12.4: says nothing."""
    assert rows_of(document) is None
    assert rows_of({"schemaVersion": "1", "provider": "etcd", "observations": [row("empty", 1)]}) == [row("empty", 1)]


LOOKS = st.lists(
    st.none()
    | st.tuples(st.sampled_from(["initializing", "missing", "empty", "populated", "unavailable"]), st.integers(0, 4)),
    max_size=6,
)


@given(st.integers(0, 3), LOOKS)
def test_a_yes_is_never_of_another_session(after: int, looks: list[tuple[str, int] | None]) -> None:
    """RT-12.4: with a revision, before a yes no look has shown a higher one, an end, or an absence after a presence."""
    verdicts = course(Waiting(RELEASE, "empty", after), *looks)
    if YES in verdicts and RENEWED not in verdicts[: verdicts.index(YES)]:
        seen = [look for look in looks[: verdicts.index(YES) + 1] if look is not None]
        revisions = [revision for _, revision in seen]
        assert revisions == sorted(revisions)
        assert seen[-1][0] == "empty"
        assert seen[-1][1] > after
        assert "unavailable" not in [state for state, _ in seen]
