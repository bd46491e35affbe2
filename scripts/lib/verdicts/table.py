"""The table: each fault, and what each observer is to say of it by when (FT-1). Pure.

A row names what differs from a node that is well and stays so; :func:`row` fills in the rest: each row has each cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scripts.lib.verdicts import figures as of
from scripts.lib.verdicts.cells import NO_ANSWER, WELL, Cell, Observer

if TYPE_CHECKING:
    from collections.abc import Mapping

WHILE_SECONDS: Final = 4.0

O = Observer  # noqa: E741  a column's head


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault. ``does`` says how it is brought about, ``needs`` what a machine has to have for it."""

    name: str
    does: str
    cells: Mapping[Observer, Cell]
    needs: tuple[str, ...] = ()
    seconds: float
    """How long it lasts at the most: until the last of its cells must show, and a while."""
    longest: float
    """The same of its recovery."""


def row(name: str, does: str, cells: Mapping[Observer, Cell], *needs: str) -> Row:
    """Return a row with all its cells: who is not named says what it says of a node that is well, all the while."""
    full = {observer: cells.get(observer, Cell((WELL[observer],))) for observer in Observer}
    notice, recover = (max(getattr(cell, end) for cell in full.values()) for end in ("notice", "recover"))
    return Row(
        name=name, does=does, cells=full, needs=needs, seconds=notice + WHILE_SECONDS, longest=recover + WHILE_SECONDS
    )


def _says(word: str, notice: float, recover: float) -> Cell:
    return Cell((word,), notice, recover)


def _not_ready(name: str, later: float = 0.0) -> dict[Observer, Cell]:
    """Return the cells of a critical dependency that fails: no traffic, and no restart."""
    notice, back = of.noticed(name) + later, of.back(name)
    return {
        O.READY: _says("not_ready", notice, back),
        O.ADAPTER_READY: _says("not_ready", notice + of.LOOKED, back + of.LOOKED),
        O.PAGE: _says("Not ready", notice + of.page_asks(), back + of.page_asks()),
    }


def _adapter_blind(notice: float, back: float) -> dict[Observer, Cell]:
    """Return the cells of an adapter whose looks fail: it says no, and nobody else does."""
    return {
        O.ADAPTER_LIVE: _says("not_live", notice, back),
        O.ADAPTER_READY: _says("not_ready", notice, back),
        O.ADAPTER_STARTED: _says("starting", notice, back),
    }


def _gap(observers: tuple[Observer, ...], seconds: float) -> dict[Observer, Cell]:
    """Return the cells of who is well again within a time, at the begin and at the end alike."""
    return {observer: Cell((WELL[observer],), seconds, seconds) for observer in observers}


_NODE: Final = (O.LIVE, O.READY, O.STARTUP, O.TOPOLOGY)
_NEW: Final = of.STARTED + max(of.back("db"), of.back("check"))
"""Until a node that is started is ready: each dependency has run."""

_NEW_NODE: Final = {
    **_gap(_NODE, _NEW + of.SILENT),
    O.RESTART: Cell(("none",), _NEW + of.SILENT, _NEW + of.SILENT),
    O.PAGE: Cell(("Ready",), _NEW + of.page_back(), _NEW + of.page_back()),
}
_ADAPTER_AGAIN: Final = _NEW + of.LOOKED

_RESUMED: Final = max(of.back("db"), of.back("check"))
"""Until what is known of the dependencies is new again, of a node that was stopped."""


def _paused() -> dict[Observer, Cell]:
    return {
        O.LIVE: _says(NO_ANSWER, of.SILENT, of.SILENT),
        O.READY: _says(NO_ANSWER, of.SILENT, _RESUMED),
        O.STARTUP: _says(NO_ANSWER, of.SILENT, of.SILENT),
        O.ADAPTER_LIVE: _says("not_live", of.STALE, of.SILENT + of.LOOKED),
        O.ADAPTER_READY: _says("not_ready", of.STALE, _RESUMED + of.LOOKED),
        O.ADAPTER_STARTED: _says("starting", of.STALE, of.SILENT + of.LOOKED),
        O.RESTART: _says("due", of.RESTART, of.SPARED),
        O.TOPOLOGY: _says(NO_ANSWER, of.SILENT, of.REGISTRY_BACK),
        O.PAGE: _says("No answer", of.page_silent() + of.SLACK, _RESUMED + of.page_back()),
    }


def _wedged() -> dict[Observer, Cell]:
    stalled = of.STALLED + of.RESTART
    return {
        O.LIVE: _says("stalled", of.STALLED, of.SLACK),
        O.ADAPTER_LIVE: _says("not_live", of.STALE, of.SILENT + of.LOOKED),
        O.ADAPTER_READY: _says("not_ready", of.STALE, of.SILENT + of.LOOKED + of.PRESSURE),
        O.ADAPTER_STARTED: _says("starting", of.STALE, of.SILENT + of.LOOKED),
        O.RESTART: _says("due", stalled, of.SPARED),
        O.PAGE: _says("No answer", of.page_silent() + of.SLACK, of.page_back()),
    }


def _exhausted() -> dict[Observer, Cell]:
    """Return the cells of a node that takes no connection: who has one is answered, and told that nothing is known."""
    page = Cell(("Not ready", "No answer"), of.page_silent() + of.SLACK, _RESUMED + of.page_back())
    adapter = _says("not_ready", of.STALE, of.SILENT + of.LOOKED + of.PRESSURE)
    return {**_paused(), O.ADAPTER_READY: adapter, O.PAGE: page}


def _registry(word: str, notice: float, back: float) -> dict[Observer, Cell]:
    return {O.TOPOLOGY: _says(word, notice, back)}


def _store_full() -> dict[Observer, Cell]:
    notice, back = of.STORE_REFUSES, of.STORE_TAKES
    return {
        O.READY: _says("not_ready", notice, back),
        O.ADAPTER_READY: _says("not_ready", notice + of.LOOKED, back + of.LOOKED),
        O.PAGE: _says("Not ready", notice + of.page_asks(), back + of.page_asks()),
    }


def _clock_back() -> dict[Observer, Cell]:
    looked = of.NODE_LOOKED + of.LOOKED + of.SLACK
    return {O.ADAPTER_READY: _says("not_ready", looked, looked)}


def _flooded() -> dict[Observer, Cell]:
    busy = of.LOOKED + of.SLACK
    words = ("Ready", "Overloaded")
    return {
        O.ADAPTER_READY: _says("not_ready", busy, busy + of.PRESSURE),
        O.PAGE: Cell(words, 0.0, of.page_back()),
    }


TABLE: Final = (
    row("dependency down", "the critical dependency's process is killed, and started again", _not_ready("db")),
    row("dependency slow", "each of its answers takes twice the probe's timeout", _not_ready("db")),
    row(
        "dependency flapping",
        "of its answers every second one is 503: never two successes in a row",
        _not_ready("db", of.interval("db")),
    ),
    row("dependency answering rubbish", "its answers are random bytes", _not_ready("db")),
    row("noncritical dependency down", "the noncritical dependency's process is killed, and started again", {}),
    row(
        "sampler dead",
        "SIGKILL to the readiness adapter; it is started again",
        {
            observer: _says(NO_ANSWER, of.SLACK, of.STARTED + of.LOOKED)
            for observer in (O.ADAPTER_LIVE, O.ADAPTER_READY, O.ADAPTER_STARTED)
        },
    ),
    row("watchdog wedged", "the thread of the tower's front is stopped (ptrace), and goes on", _wedged(), "ptrace"),
    row(
        "wall clock stepped back",
        "the tower's CLOCK_REALTIME by an hour (a library before libc's), and back",
        _clock_back(),
        "cc",
    ),
    row("node paused", "SIGSTOP to the tower, then SIGCONT", _paused()),
    row(
        "node replaced",
        "SIGKILL to the tower, and another one on the same store; the same once more",
        {
            **_NEW_NODE,
            **_gap((O.ADAPTER_LIVE, O.ADAPTER_READY, O.ADAPTER_STARTED), _ADAPTER_AGAIN + of.SILENT),
        },
    ),
    row(
        "identity swapped",
        "the tower starts without the file of its node's id, and so has another one; then with it",
        {**_NEW_NODE, **_adapter_blind(of.STALE, _ADAPTER_AGAIN + of.SILENT)},
    ),
    row(
        "registry empty",
        "the release's instance is taken out of etcd, and registered again",
        _registry("empty", of.CHANGE, of.CHANGE),
        "etcd",
    ),
    row(
        "registry stale",
        "SIGSTOP to etcd: it takes connections and says nothing; then SIGCONT",
        _registry("unavailable", of.REGISTRY_LOST, of.REGISTRY_BACK),
        "etcd",
    ),
    row(
        "registry cut off",
        "a proxy before etcd resets and refuses every connection, and does so no more",
        _registry("unavailable", of.REGISTRY_LOST, of.REGISTRY_BACK),
        "etcd",
    ),
    row(
        "registry compacted",
        "the same, and meanwhile 100 revisions of etcd's are written and forgotten",
        _registry("unavailable", of.REGISTRY_LOST, of.REGISTRY_BACK),
        "etcd",
    ),
    row("LXD restarting", "SIGKILL to a real LXD daemon with an instance of a module; it is started again", {}, "lxd"),
    row("command hung", "the probe's command sleeps for a minute", _not_ready("check")),
    row("command flooding", "the probe's command writes 64 MiB before it ends well", {}),
    row("command leaving children", "the probe's command leaves a child in its group, and ends well", {}),
    row(
        "sampler's command hung",
        "the adapter's command sleeps for a minute",
        _adapter_blind(of.LOOKED + of.SLACK, of.LOOKED * 2 + of.SLACK),
    ),
    row(
        "sampler's command flooding",
        "the adapter's command writes without an end",
        _adapter_blind(of.LOOKED + of.SLACK, of.LOOKED * 2 + of.SLACK),
    ),
    row(
        "sampler's command leaving children",
        "the adapter's command leaves a child in its group that holds its output, and prints the observation",
        {},
    ),
    row("store full", "the tmpfs under the store is filled, and freed", _store_full(), "namespace"),
    row(
        "store damaged",
        "the tower starts on a store of which half is overwritten; then on the store as it was",
        {**_NEW_NODE, **_adapter_blind(of.STALE, _ADAPTER_AGAIN + of.SILENT)},
    ),
    row(
        "descriptors exhausted",
        "the tower's limit of open files is lowered below what it has: it can open none; then it is as it was",
        _exhausted(),
    ),
    row("flood", "four times as many requests at once as the tower has places", _flooded()),
)
