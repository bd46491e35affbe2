"""What a provider knows of its boundary, with the time in the test's hands."""

from __future__ import annotations

import logging

import pytest

from idkmesh.changes import Change
from idkmesh.topology.change_lines import line_of
from idkmesh.topology.model import Cause
from idkmesh.topology.provider import Counted, Usability
from idkmesh.topology.providers.boundary import PAUSE_SECONDS, TRUST_SECONDS, Boundary, Words, pause
from idkmesh.topology.providers.crossings import Crossings
from tests.topology.support import START

ILL = ("provider here: silent; its releases are unavailable; look at There", logging.ERROR)
WELL = ("provider here: it can be followed again", logging.INFO)


class Site:
    """A boundary and its lines."""

    def __init__(self, mend: str = "") -> None:
        self.lines: list[tuple[str, int]] = []
        self.told: list[Change] = []
        words = Words("here", "There", "records", mend)
        self.boundary = Boundary(words, lambda line, level: self.lines.append((line, level)), self.told.append)


def test_a_connection_that_ends_is_trusted() -> None:
    """RT-5.6, RT-7.3, RT-8.5: for 2 s what was known counts, and the boundary is usable; then neither."""
    site = Site()
    site.boundary.well()
    assert site.boundary.ended(START) == START + TRUST_SECONDS == START + 2.0
    assert site.boundary.lost(Cause.SILENT, START + 1.999)
    assert site.boundary.usability == Usability(usable=True)
    assert site.boundary.cause is Cause.SILENT
    assert site.lines == []
    assert not site.boundary.lost(Cause.SILENT, START + 2.0)
    assert site.boundary.usability == Usability(usable=False, cause=Cause.SILENT)
    assert site.boundary.left(START + 2.0) is None
    assert site.lines == [ILL]


def test_what_never_was_is_not_trusted() -> None:
    """RT-5.6: without a connection before it a failure counts at once."""
    site = Site()
    assert not site.boundary.lost(Cause.SILENT, START)
    assert site.boundary.usability.cause is Cause.SILENT


def test_how_long_trust_lasts() -> None:
    """RT-7.3: what is left of it bounds a request; its end is seen once."""
    boundary = Site().boundary
    assert boundary.left(START) is None
    boundary.ended(START)
    assert boundary.left(START + 0.5) == pytest.approx(1.5)
    assert boundary.left(START + 60) == 0.0


def test_a_line_for_each_crossing() -> None:
    """RT-7.3, RT-8.5: one where it begins, one for each other cause, one where it ends; and again from then on."""
    site = Site()
    site.boundary.well()
    for _ in range(3):
        site.boundary.lost(Cause.SILENT, START)
    for cause in (Cause.REFUSED, Cause.SILENT, Cause.REFUSED):
        site.boundary.lost(cause, START)
    site.boundary.well()
    site.boundary.well()
    site.boundary.lost(Cause.SILENT, START)
    refused = ("provider here: refused; its releases are unavailable; look at There", logging.ERROR)
    assert site.lines == [ILL, refused, WELL, ILL]
    assert site.boundary.cause is Cause.SILENT


LOST = Change("idkmesh.topology.provider_lost", "here", {"cause": "silent"})
BACK = Change("idkmesh.topology.provider_back", "here", {})


def test_an_event_for_each_crossing() -> None:
    """RT-10.2: lost, from the beginning on too, and back, once each: another cause is no crossing, nor is a line."""
    site = Site()
    for cause in (Cause.SILENT, Cause.REFUSED, Cause.SILENT):
        site.boundary.lost(cause, START)
    assert site.told == [LOST]
    for _ in range(2):
        site.boundary.well()
    assert site.told == [LOST, BACK]
    site.boundary.ended(START)
    site.boundary.lost(Cause.SILENT, START + 1.9)
    assert site.told == [LOST, BACK], "it is usable while what was known is trusted"
    site.boundary.lost(Cause.SILENT, START + 2.0)
    assert site.told == [LOST, BACK, LOST]
    assert [line_of(change) for change in (LOST, BACK)] == [None, None]


def test_connections_that_are_made_anew_are_counted() -> None:
    """RT-10.6, RT-5.6: each that ended and was followed by another one, unnoticed or not; the first one is none."""
    boundary = Site().boundary
    boundary.lost(Cause.UNREACHABLE, START)
    boundary.well()
    assert boundary.counted == Counted(reconnects=0)
    boundary.ended(START)
    boundary.lost(Cause.SILENT, START + 1)
    assert boundary.counted.reconnects == 0
    boundary.well()
    assert boundary.counted.reconnects == 1
    boundary.well()
    assert boundary.counted.reconnects == 1, "no connection has ended"
    boundary.ended(START)
    for second in (1, 2, 3):
        boundary.lost(Cause.SILENT, START + second)
    assert not boundary.usability.usable
    boundary.well()
    assert boundary.counted.reconnects == 2
    boundary.lost(Cause.LOST, START + 9)
    boundary.well()
    assert boundary.counted.reconnects == 3, "one that had said nothing to be trusted"


def test_what_is_not_used_is_counted() -> None:
    """RT-10.6: as it is now; of a source that is lost nothing is known, but how often it was."""
    boundary = Site().boundary
    boundary.well()
    boundary.unreadable(2)
    boundary.ignored(7)
    assert boundary.counted == Counted(unreadable=2, ignored=7)
    boundary.ended(START)
    assert boundary.lost(Cause.SILENT, START)
    assert boundary.counted == Counted(unreadable=2, ignored=7)
    assert not boundary.lost(Cause.SILENT, START + 2)
    assert boundary.counted == Counted()


def test_a_bound_that_is_passed_is_told_once() -> None:
    """RT-7.5: a line for it beside that of the loss, and again once it was well in between."""
    site = Site()
    for _ in range(2):
        site.boundary.beyond("too much")
        site.boundary.beyond("too much")
        site.boundary.well()
    assert site.lines == [("provider here: too much", logging.ERROR), WELL] * 2


def test_what_is_no_crossing() -> None:
    """RT-10.2: a provider that is well at first was not away, and one that is closed is not lost."""
    told: list[Change] = []
    crossings = Crossings("here", told.append, lambda *_: None)
    for usability in (Usability(usable=False), Usability(usable=True), Usability(usable=False, cause=Cause.CLOSED)):
        crossings.see(usability)
    assert told == []


def test_a_taker_of_crossings_that_fails() -> None:
    """RT-5.4, RT-11.5: its fault ends nothing, is a line with its kind alone, and no log that is full ends more."""

    def broken(*_: object) -> None:
        raise OSError("s3cret")

    lines: list[str] = []
    Crossings("here", broken, lambda line, _: lines.append(line)).see(Usability(usable=False, cause=Cause.SILENT))
    assert lines == ["provider here: a taker of changes has a fault: OSError"]
    Crossings("here", broken, broken).see(Usability(usable=False, cause=Cause.SILENT))


def test_records_that_cannot_be_read() -> None:
    """RT-7.5, RT-8.6: a line with their number where they begin, and one where they end."""
    site = Site("write them well")
    for count in (0, 2, 3, 0, 0, 1):
        site.boundary.unreadable(count)
    assert [line for line, _ in site.lines] == [
        "provider here: 2 records are no endpoint and are not used; write them well",
        "provider here: all records can be read again",
        "provider here: 1 records are no endpoint and are not used; write them well",
    ]
    site.boundary.forget_unreadable()
    site.boundary.unreadable(0)
    assert len(site.lines) == 3


def test_a_pause_is_shortened_by_chance() -> None:
    """RT-7.3: 0.5 s to 1 s, another one each time."""
    found = {pause() for _ in range(100)}
    assert len(found) > 50
    assert all(PAUSE_SECONDS / 2 <= each <= PAUSE_SECONDS == 1.0 for each in found)
