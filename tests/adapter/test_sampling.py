"""When a node is looked at and what comes of a look, on a clock that stands still."""

from __future__ import annotations

import json
from typing import Any

import pytest

from idkmesh.adapter.observation import MAX_DOCUMENT_BYTES, Failure, Observation, failure_document
from idkmesh.adapter.sampling import (
    CHILD_SECONDS,
    INTERVAL_SECONDS,
    TRANSITIONS,
    Event,
    Phase,
    Sampler,
    outcome_of,
)
from idkmesh.adapter.verdict import FOR_LIVE, FOR_READY, FRESH, RESULT, Held, Verdict, after, verdict
from idkmesh.adapter.words import answer_line, verdict_line
from tests.adapter.observations import EXAMPLE, EXAMPLE_FILE, NODE_ID, with_amiss

DOCUMENT = EXAMPLE_FILE.read_bytes()
NOW = 500.0


def at(sampler: Sampler, now: float) -> Verdict:
    return verdict(sampler.held, NODE_ID, now)


def looked(now: float = NOW, output: bytes = DOCUMENT, code: int | None = 0) -> Sampler:
    """Return a sampler whose first look is complete at ``now``."""
    sampler = Sampler(NODE_ID)
    look(sampler, now, output, code)
    return sampler


def look(sampler: Sampler, now: float, output: bytes = DOCUMENT, code: int | None = 0) -> None:
    sampler.started(now)
    sampler.printed(output, now)
    sampler.ended()
    sampler.reaped(code, now)


def test_the_first_look_is_due_at_once() -> None:
    """RA-7.1: an adapter that has just started looks, and knows nothing before."""
    sampler = Sampler(NODE_ID)
    assert sampler.due(NOW)
    assert sampler.wait(NOW) == 0.0
    assert sampler.held == Held()
    assert not at(sampler, NOW).live


def test_the_next_look_begins_a_second_after_the_last_is_complete() -> None:
    """RA-7.1: the interval counts from the completion, however long the look took."""
    sampler = Sampler(NODE_ID)
    sampler.started(NOW)
    sampler.printed(DOCUMENT, NOW + 1.0)
    sampler.ended()
    sampler.reaped(0, NOW + 1.2)
    assert sampler.wait(NOW + 1.2) == pytest.approx(INTERVAL_SECONDS)
    assert not sampler.due(NOW + 2.19)
    assert sampler.due(NOW + 2.21)
    assert at(sampler, NOW + 4.2).ready
    assert at(sampler, NOW + 4.3).not_live == (FRESH,)


def test_no_two_looks_at_once() -> None:
    """RA-7.1: while a child runs, or is not reaped, nothing is due; a second start is the caller's fault."""
    sampler = Sampler(NODE_ID)
    sampler.started(NOW)
    assert not sampler.due(NOW + 1000)
    with pytest.raises(KeyError):
        sampler.started(NOW)
    sampler.expire(NOW + CHILD_SECONDS)
    assert sampler.phase is Phase.ENDING
    assert not sampler.due(NOW + 1000)
    assert sampler.wait(NOW + 1000) is None
    with pytest.raises(KeyError):
        sampler.started(NOW + 1000)
    sampler.reaped(-9, NOW + 2000)
    assert not sampler.due(NOW + 2000.9)
    assert sampler.due(NOW + 2001)


def test_every_transition_is_taken_or_refused() -> None:
    """RA-7.1: the table is the machine, and from RUNNING and ENDING a look goes to its end."""
    assert {phase: set(row.values()) for phase, row in TRANSITIONS.items()} == {
        Phase.WAITING: {Phase.RUNNING, Phase.WAITING},
        Phase.RUNNING: {Phase.ENDING},
        Phase.ENDING: {Phase.WAITING},
    }
    assert {event for row in TRANSITIONS.values() for event in row} == set(Event)


def test_a_late_look_fails_before_its_child_is_gone() -> None:
    """RA-7.2, RA-3.4: after 1.5 s live and ready are no at once, and the look is complete when the child is reaped."""
    sampler = looked()
    sampler.started(NOW + 1)
    sampler.expire(NOW + 2.49)
    assert at(sampler, NOW + 2.49).ready
    assert sampler.wait(NOW + 2.49) == pytest.approx(0.01)
    sampler.expire(NOW + 2.5)
    told = at(sampler, NOW + 2.5)
    assert (told.live, told.ready, told.not_live) == (False, False, (RESULT,))
    assert sampler.held.failure == "the node's command did not end within 1.5 s"
    sampler.printed(DOCUMENT, NOW + 2.6)
    sampler.ended()
    sampler.reaped(0, NOW + 2.6)
    assert not at(sampler, NOW + 2.6).live


def test_what_a_pause_has_made_late_is_late() -> None:
    """RA-3.3, RA-7.2: an adapter that was stopped meanwhile takes no answer for a fresh one, however it waits there."""
    sampler = looked()
    sampler.started(NOW + 1)
    sampler.expire(NOW + 5)  # the first thing of a turn
    sampler.printed(DOCUMENT, NOW + 5)
    sampler.ended()
    sampler.reaped(0, NOW + 5)
    assert not at(sampler, NOW + 5).live


def test_output_up_to_the_bound() -> None:
    """RA-7.2: 256 KiB are taken, one byte more is a failed look at once."""
    padded = DOCUMENT + b" " * (MAX_DOCUMENT_BYTES - len(DOCUMENT))
    assert at(looked(output=padded), NOW).ready
    sampler = looked()
    sampler.started(NOW + 1)
    sampler.printed(padded, NOW + 1)
    assert at(sampler, NOW + 1).ready
    sampler.printed(b" ", NOW + 1)
    assert sampler.phase is Phase.ENDING
    assert sampler.held.failure == "the node's command printed more than 262144 bytes"
    sampler.printed(b" " * 1000, NOW + 1)
    sampler.reaped(0, NOW + 1)
    assert not at(sampler, NOW + 1).live


def test_a_look_that_could_not_begin() -> None:
    """RA-3.4: the last observation ages, the next try is a second later, and the reason is there until one begins."""
    sampler = looked()
    sampler.not_started("no such program", NOW + 1)
    assert sampler.not_begun == "no such program"
    assert at(sampler, NOW + 3).ready
    assert at(sampler, NOW + 3.1).not_live == (FRESH,)
    assert not sampler.due(NOW + 1.9)
    assert sampler.due(NOW + 2)
    sampler.started(NOW + 2)
    assert sampler.not_begun is None


def test_a_look_that_was_refused() -> None:
    """RA-7.1, RA-3.4: it has failed, which clears at once, and the next is a second later; no child was in it."""
    sampler = looked()
    sampler.refused("the file is open to all", NOW + 1)
    assert at(sampler, NOW + 1).not_live == (RESULT,)
    assert (sampler.held.failure, sampler.not_begun, sampler.complete) == ("the file is open to all", None, 2)
    assert not sampler.due(NOW + 1.9)
    assert sampler.due(NOW + 2)


def test_a_failed_look_clears_and_the_next_restores() -> None:
    """RA-3.4, RA-3.5: one failure is enough for no, one success for yes, and the lifetime goes on."""
    sampler = looked()
    look(sampler, NOW + 1, code=1)
    assert at(sampler, NOW + 1) == Verdict(
        live=False, ready=False, started=False, not_live=(RESULT,), not_ready=(RESULT,)
    )
    look(sampler, NOW + 2)
    assert at(sampler, NOW + 2).started
    assert sampler.complete == 3


FAILED = json.dumps(failure_document("nobody listens")).encode()


@pytest.mark.parametrize(
    ("code", "output", "reason"),
    [
        (0, FAILED, "the node's command says that it failed: nobody listens"),
        (1, FAILED, "the node's command says that it failed: nobody listens"),
        (3, b"", "the node's command ended with exit code 3"),
        (1, DOCUMENT, "the node's command ended with exit code 1"),
        (-15, DOCUMENT, "the node's command was ended by signal 15"),
        (None, DOCUMENT, "the exit status of the node's command is lost"),
        (0, b"", "the node's command printed nothing"),
        (0, b" \r\n\t", "the node's command printed nothing"),
        (1, b"", "the node's command ended with exit code 1"),
        (0, b"Segmentation fault\n", "the observation is refused: it is no JSON in UTF-8"),
        (0, DOCUMENT[:-10], "the observation is refused: it is no JSON in UTF-8"),
        (0, DOCUMENT + DOCUMENT, "the observation is refused: something follows the document"),
        (0, DOCUMENT + b"done\n", "the observation is refused: something follows the document"),
        (0, b"5 of 7 are well", "the observation is refused: it is no JSON in UTF-8"),
    ],
)
def test_what_is_no_success(code: int | None, output: bytes, reason: str) -> None:
    """RA-7.3: exit code 0 and a whole observation together are a success, and nothing else is."""
    told = outcome_of(code, output)
    assert isinstance(told, Failure)
    assert told.reason.startswith(reason)


def test_a_success() -> None:
    """RA-7.3: the document, and the exit code 0."""
    assert isinstance(outcome_of(0, DOCUMENT), Observation)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "the node is live and ready"),
        ({"health": "failing"}, "the node is not live: health"),
        (
            {"node": {"id": "another", "boot_id": "its-own"}, "health": "failing"},
            f"the node is not live: identity (it is another, and {NODE_ID} is meant), health",
        ),
        ({"draining": True}, "the node is live, has not started, and is not ready: draining"),
        (
            {"draining": True, "pressure": "unknown"},
            "the node is live, has not started, and is not ready: pressure, draining",
        ),
    ],
)
def test_a_line_for_people(changes: dict[str, Any], line: str) -> None:
    """RA-7.5: a line names the conditions that fail, and no other."""
    sampler = looked(output=json.dumps(EXAMPLE | changes).encode())
    assert verdict_line(at(sampler, NOW), sampler.held, NODE_ID) == line


def test_a_verdict_in_words() -> None:
    """RA-6.1: what fails is told by its name, which the pages have, and in words that need no page."""
    told = after(Held(), with_amiss("activation", "draining"), NODE_ID, NOW)
    against = verdict(told, NODE_ID, NOW)
    assert answer_line("live", against.not_live) == "live yes"
    assert answer_line("ready", against.not_ready) == (
        "ready no: activation (the node's own readiness says no; its /readyz names why), draining (the node is ending)"
    )
    words = [condition.failing for condition in (*FOR_LIVE, *FOR_READY)]
    assert len(set(words)) == len(words)


def test_lines_of_a_node_that_has_started_and_of_one_that_was_not_seen() -> None:
    """RA-7.5: a node that has started says so no more; a failed look says why, a stale one that it is that."""
    sampler = looked()
    look(sampler, NOW + 1, json.dumps(EXAMPLE | {"draining": True}).encode())
    assert verdict_line(at(sampler, NOW + 1), sampler.held, NODE_ID) == "the node is live, and not ready: draining"
    assert verdict_line(at(sampler, NOW + 9), sampler.held, NODE_ID) == "the node is not live: fresh"
    look(sampler, NOW + 9, b"", 3)
    line = "the node is not live: result (the node's command ended with exit code 3)"
    assert verdict_line(at(sampler, NOW + 9), sampler.held, NODE_ID) == line
