"""The watches of a provider whose one thread calls every sink, without one."""

from __future__ import annotations

import pytest

from idkmesh.topology.model import Cause, Failed
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.providers.watches import Watches
from tests.topology.support import ECHO, EMPTY, Heard, at, other


def test_what_is_the_same_is_said_once() -> None:
    """RT-5.2, RT-2.3: of events that are alike the first one is handed over; a failure is the last."""
    watches, heard = Watches(), Heard()
    watch = watches.add(ECHO, heard)
    for event in (EMPTY, EMPTY, at(1), Failed(Cause.LOST), Failed(Cause.SILENT), at(2)):
        watch.say(event)
    assert heard.events == [EMPTY, at(1), Failed(Cause.LOST)]
    assert watches.all() == []


def test_an_end_is_without_a_word() -> None:
    """RT-5.7, RT-5.3: after it no sink is called, not even of a thread that has taken its watches before."""
    watches, heard = Watches(), Heard()
    taken = [watches.add(ECHO, heard), watches.add(other(1), heard)]
    assert watches.take_new() == watches.all() == taken
    watches.close()
    for watch in taken:
        watch.say(EMPTY)
        watch.say(Failed(Cause.LOST))
        watch.close()
    assert heard.events == []
    assert (watches.all(), watches.targets(), watches.take_new()) == ([], [], [])
    with pytest.raises(ProviderFailureError, match=r"^closed$"):
        watches.add(ECHO, heard)


def test_a_watch_that_is_closed_before_it_was_new() -> None:
    """RT-5.3: it is not handed to whoever asks for new ones, and the others of its target are."""
    watches, heard = Watches(), Heard()
    first, second = watches.add(ECHO, heard), watches.add(ECHO, heard)
    first.close()
    first.close()
    assert watches.take_new() == watches.of(ECHO) == [second]
    assert watches.take_new() == []
