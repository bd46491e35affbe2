"""The projection as an answer: made once for all, how old it may be, and who makes it."""

from __future__ import annotations

import errno
import json
import logging
import tempfile
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from idkmesh.clock import SystemClock
from idkmesh.router import projection as module
from idkmesh.router.projection import AGE_FIELD, Projection
from idkmesh.topology.selector import WatchSelector
from tests.topology.support import ECHO, HandProvider, ManualClock, Site, at, eventually, other

if TYPE_CHECKING:
    from idkmesh.httpd.responses import Response


def nothing(_line: str, _level: int) -> None:
    """Take a line."""


class Shown:
    """A projection of three releases, its times in the test's hands."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.site = Site(HandProvider(at(1)), self.clock)
        for number in range(3):
            self.site.selector.select(other(number))
        self.projection = Projection(self.site.selector, self.clock, nothing)
        self.port = 1

    def change(self) -> None:
        self.port += 1
        self.site.watch.say(at(self.port))

    def told(self) -> tuple[int, str | None]:
        """Return the last release's revision as it is answered, and the age."""
        answer = self.projection()
        return json.loads(content(answer))["observations"][2]["localRevision"], dict(answer.headers).get(AGE_FIELD)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return one to which three observations are too many to be exact."""
    monkeypatch.setattr(module, "EXACT_OBSERVATIONS", 2)
    return Shown()


def content(answer: Response) -> bytes:
    return answer.body if answer.stored is None else answer.stored.read()


def test_it_is_made_once_while_nothing_changes() -> None:
    """RT-11.6: everybody gets the same; each change, opening and closing makes another one, at once and without age."""
    shown = Shown()
    first = shown.projection()
    assert content(first) == shown.site.selector.document()
    shown.clock.now += 1000
    assert shown.projection() is first
    shown.change()
    assert shown.told() == (2, None)
    second = shown.projection()
    shown.site.selector.select(ECHO)
    assert len(json.loads(content(shown.projection()))["observations"]) == 4
    assert shown.projection() is not second
    shown.clock.now += 4000
    shown.site.selector.keep()
    assert shown.projection().body == b'{"schemaVersion":"1","provider":"etcd","observations":[]}'
    shown.site.selector.select(ECHO)
    shown.site.selector.stop()
    assert json.loads(shown.projection().body)["observations"] == []


def test_what_says_the_same_makes_no_other_one() -> None:
    """RT-11.6, RT-2.3: a snapshot that says the same, a selection and a reading leave it as it was."""
    shown = Shown()
    first = shown.projection()
    shown.site.watch.say(at(1))
    shown.site.selector.select(other(0))
    shown.site.selector.document()
    assert shown.projection() is first


def test_many_observations_that_change(many: Shown) -> None:
    """RT-11.6: what is not the newest says its age; from 2 s on it is made anew by who asks."""
    assert many.told() == (1, None)
    many.clock.now += 0.25
    assert many.told() == (1, None)
    many.change()
    assert many.told() == (1, "0.250")
    many.clock.now += 1.749
    assert many.told() == (1, "1.999")
    many.clock.now += 0.001
    assert many.told() == (2, None)


def test_documents_are_made_for_who_asks_next(many: Shown) -> None:
    """RT-11.6: while somebody has asked within 10 s; what is made is the newest of that instant."""
    assert not many.projection.keep()
    assert many.told() == (1, None)
    for turn in range(3):
        many.change()
        many.clock.now += 0.5
        assert many.projection.keep()
        many.clock.now += 0.1
        assert many.told() == (2 + turn, None)
    many.change()
    many.clock.now += 9.999
    assert many.projection.keep()
    many.clock.now += 0.001
    assert not many.projection.keep()
    assert many.told() == (5, None)


def test_few_observations_need_no_thread() -> None:
    """RT-11.6: up to 10,000 nothing is made for who may ask next."""
    shown = Shown()
    shown.told()
    assert not shown.projection.keep()


def test_its_thread(many: Shown) -> None:
    """RT-11.7: the thread makes what is due: an answer is the newest without anybody's making it; then it ends."""
    projection = Projection(many.site.selector, SystemClock(), nothing)
    projection.start()
    try:
        projection()
        many.change()
        assert AGE_FIELD in dict(projection().headers)
        assert eventually(lambda: projection().headers == ())
        assert content(projection()) == many.site.selector.document()
    finally:
        projection.stop()
        projection.stop()
    assert projection._thread is not None
    assert not projection._thread.is_alive()


def test_a_fault_in_its_thread(many: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-11.7: it is a line, and the thread goes on with who asks next."""
    lines: list[tuple[str, int]] = []
    projection = Projection(many.site.selector, SystemClock(), lambda line, level: lines.append((line, level)))
    projection()

    def fault(*_: Any) -> NoReturn:
        raise RuntimeError("secret")

    with monkeypatch.context() as patch:
        patch.setattr(WatchSelector, "rows", fault)
        many.change()
        projection.start()
        assert eventually(lambda: bool(lines))
    assert lines[0] == ("the projection of the topology has a fault: RuntimeError", logging.ERROR)
    assert eventually(lambda: projection().headers == ())
    projection.stop()


def test_a_large_one_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-11.7: beyond 32 KiB it stands in a file, and where there is no room for one in memory, with the same bytes."""
    clock = ManualClock()
    site = Site(HandProvider(at(1)), clock)
    for number in range(1000):
        site.selector.select(other(number))

    def full(**_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    stored = Projection(site.selector, clock, nothing)()
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    held = Projection(site.selector, clock, nothing)()
    assert stored.stored is not None
    assert held.stored is None
    assert stored.stored.read() == held.body == site.selector.document()
