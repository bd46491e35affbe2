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
LEAST_SECONDS: Final = 6.0
"""How long a fault lasts at the least, and how long is looked after it."""

O = Observer  # noqa: E741  a column's head


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault. ``does`` says how it is brought about, ``why`` what is expected of it and by which clauses.

    ``needs`` is what a machine has to have for it. A fault lasts for ``least`` seconds at the least, ``seconds`` at the
    most: until the last of its cells must show, and a while; ``longest`` is the same of its recovery. ``leaves`` is how
    many processes a command has left then, by its contract.
    """

    name: str
    does: str
    why: str
    cells: Mapping[Observer, Cell]
    needs: str = ""
    least: float
    seconds: float
    longest: float
    leaves: int = 0


def row(  # noqa: PLR0913  the columns of the table
    name: str,
    does: str,
    why: str,
    cells: Mapping[Observer, Cell],
    *,
    needs: str = "",
    least: float = LEAST_SECONDS,
    leaves: int = 0,
) -> Row:
    """Return a row with all its cells: who is not named says what it says of a node that is well, all the while."""
    full = {observer: cells.get(observer, Cell((WELL[observer],))) for observer in Observer}
    notice, recover = (max(getattr(cell, end) for cell in full.values()) for end in ("notice", "recover"))
    return Row(
        name=name,
        does=does,
        why=why,
        cells=full,
        needs=needs,
        least=least,
        seconds=max(notice, least) + WHILE_SECONDS,
        longest=recover + WHILE_SECONDS,
        leaves=leaves,
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
        O.READY: _says("not_ready", of.STALLED, of.SLACK),
        O.ADAPTER_LIVE: _says("not_live", of.STALE, of.SILENT + of.LOOKED),
        O.ADAPTER_READY: _says("not_ready", of.STALE, of.SILENT + of.LOOKED + of.PRESSURE),
        O.ADAPTER_STARTED: _says("starting", of.STALE, of.SILENT + of.LOOKED),
        O.RESTART: _says("due", stalled, of.SPARED),
        O.PAGE: _says("No answer", of.page_silent() + of.SLACK, of.page_back()),
    }


def _exhausted() -> dict[Observer, Cell]:
    """Return the cells of a node that takes no connection but those of its probe listener (HS-4.9)."""
    paused = _paused()
    silent = {each: paused[each] for each in (O.ADAPTER_LIVE, O.ADAPTER_STARTED, O.TOPOLOGY)}
    return {
        **silent,
        O.READY: _says("not_ready", of.noticed("db"), _RESUMED),
        O.ADAPTER_READY: _says("not_ready", of.STALE, _RESUMED + of.LOOKED + of.PRESSURE),
        O.PAGE: Cell(("Not ready", "No answer"), of.page_silent() + of.SLACK, _RESUMED + of.page_back()),
    }


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


def _clock_forward() -> dict[Observer, Cell]:
    return {O.ADAPTER_READY: Cell(("ready",), 0.0, of.FORWARD)}


def _flooded() -> dict[Observer, Cell]:
    busy = of.LOOKED + of.SLACK
    words = ("Ready", "Overloaded")
    return {
        O.ADAPTER_READY: _says("not_ready", busy, busy + of.PRESSURE),
        O.PAGE: Cell(words, 0.0, of.page_back()),
    }


TABLE: Final = (
    row(
        "dependency down",
        "the critical dependency's process is killed, and started again",
        "no traffic, and no restart: liveness asks no dependency (HL-1.1)",
        _not_ready("db"),
    ),
    row(
        "dependency slow",
        "each of its answers takes twice the probe's timeout",
        "an answer that comes later is a timeout (HL-4.1)",
        _not_ready("db"),
    ),
    row(
        "dependency flapping",
        "of its answers every second one is 503: never two successes in a row",
        "a success alone does not bring traffic back (HL-4.7)",
        _not_ready("db", of.interval("db")),
    ),
    row(
        "dependency answering rubbish",
        "its answers are random bytes",
        "what is no answer is a failure (HL-4.2)",
        _not_ready("db"),
    ),
    row(
        "noncritical dependency down",
        "the noncritical dependency's process is killed, and started again",
        "it is a warning of readiness, and no more (HL-5.2)",
        {},
    ),
    row(
        "sampler dead",
        "SIGKILL to the readiness adapter; it is started again",
        "nobody is there who could say yes, and the node itself does not need it",
        {
            observer: _says(NO_ANSWER, of.SLACK, of.STARTED + of.LOOKED)
            for observer in (O.ADAPTER_LIVE, O.ADAPTER_READY, O.ADAPTER_STARTED)
        },
    ),
    row(
        "watchdog wedged",
        "the thread of the tower's front is stopped (ptrace), and goes on",
        "no progress is what liveness is about: the probe listener says `stalled`, and the restart is due (HL-2.2); "
        "until then it gets no traffic (HL-1.2)",
        _wedged(),
        needs="ptrace",
    ),
    row(
        "wall clock stepped back",
        "the tower's CLOCK_REALTIME by an hour (a library before libc's), and back",
        "all ages are monotonic; but what is recorded now lies before what was, so the adapter sends no new work "
        "(RA-5.7)",
        _clock_back(),
        needs="cc",
    ),
    row(
        "wall clock stepped forward",
        f"the tower's CLOCK_REALTIME by {of.FORWARD_SECONDS} s (a library before libc's), and back",
        "nothing is too old or over for it; once it is right again it is behind what was recorded meanwhile, until it "
        "has caught up (RA-5.7): that is its recovery",
        _clock_forward(),
        needs="cc",
    ),
    row(
        "node paused",
        "SIGSTOP to the tower, then SIGCONT",
        "nobody answers, and the restart is due; what it knew of its dependencies is too old when it goes on (HL-4.5)",
        _paused(),
    ),
    row(
        "node replaced",
        "SIGKILL to the tower, and another one on the same store; the same once more",
        "the node's id is in its store: to the adapter it is the same one, in another life (RA-5.2, RA-3.5)",
        {
            **_NEW_NODE,
            **_gap((O.ADAPTER_LIVE, O.ADAPTER_READY, O.ADAPTER_STARTED), _ADAPTER_AGAIN + of.SILENT),
        },
    ),
    row(
        "identity swapped",
        "the tower starts without the file of its node's id, and so has another one; then with it",
        "the node is well, and not the one that the adapter was started for (RA-3.1)",
        {**_NEW_NODE, **_adapter_blind(of.STALE, _ADAPTER_AGAIN + of.SILENT)},
    ),
    row(
        "registry empty",
        "the release's instance is taken out of etcd, and registered again",
        "empty is a state of its own, told at once (RT-7.4)",
        _registry("empty", of.CHANGE, of.CHANGE),
        needs="etcd",
    ),
    row(
        "registry stale",
        "SIGSTOP to etcd: it takes connections and says nothing; then SIGCONT",
        "what was known last is not served on: unavailable, and the node itself is well (RT-7.3)",
        _registry("unavailable", of.REGISTRY_LOST, of.REGISTRY_BACK),
        needs="etcd",
    ),
    row(
        "registry cut off",
        "a proxy before etcd resets and refuses every connection, and does so no more",
        "a connection that ends is told as a silent one is (RT-7.3)",
        _registry("unavailable", of.REGISTRY_LOST, of.REGISTRY_BACK),
        needs="etcd",
    ),
    row(
        "registry compacted",
        "the same, and meanwhile 100 revisions of etcd's are written and forgotten",
        "where the watch cannot go on it begins anew from a list, and misses nothing (RT-3.5)",
        _registry("unavailable", of.REGISTRY_LOST, of.REGISTRY_BACK),
        needs="etcd",
    ),
    row(
        "LXD restarting",
        "SIGKILL to a real LXD daemon with an instance of a module; it is started again once a restart would be due",
        "a daemon that does not answer says nothing of its instances: none is restarted (AR-3.3)",
        {},
        needs="lxd",
        least=of.FAILS_FOR,
    ),
    row(
        "command hung",
        "the probe's command sleeps for a minute",
        "it is killed with its group at its deadline, which is a failure (HL-4.8)",
        _not_ready("check"),
    ),
    row(
        "command flooding",
        "the probe's command writes 64 MiB before it ends well",
        "its output is dropped, and its exit status counts (HL-4.8)",
        {},
    ),
    row(
        "command leaving children",
        "the probe's command leaves a child in its group, and ends well",
        "the group is killed when it has ended: nothing is left (HL-4.8)",
        {},
    ),
    row(
        "instance's command hung",
        "a module's readiness command, in an instance of a real LXD, sleeps for ten minutes",
        "it is killed in the instance at its limit, and fails: the replica is restarted, and the node is not (AR-3.4, "
        "AR-5.1)",
        {O.RESTART: _says("of a module", of.REPLICA_RESTARTED, of.REPLICA_WELL)},
        needs="lxd",
    ),
    row(
        "instance's command flooding",
        "the same command writes 32 MiB and ends well, until a restart would be due",
        "its output is dropped, and its exit status counts (AR-8.3)",
        {},
        needs="lxd",
        least=of.FAILS_FOR,
    ),
    row(
        "instance's command leaving children",
        "the same command leaves a child that holds its output, and ends well, until a restart would be due",
        "it says nothing, so nobody is restarted; nor is it started again while the child is there: one is left, and "
        "no more (AR-3.4)",
        {},
        needs="lxd",
        least=of.FAILS_FOR,
        leaves=1,
    ),
    row(
        "sampler's command hung",
        "the adapter's command sleeps for a minute",
        "a look that fails clears what was seen (RA-3.4): no by the adapter alone",
        _adapter_blind(of.LOOKED + of.SLACK, of.LOOKED * 2 + of.SLACK),
    ),
    row(
        "sampler's command flooding",
        "the adapter's command writes without an end",
        "it is killed at 256 KiB: what is too long is no observation (RA-7.2)",
        _adapter_blind(of.LOOKED + of.SLACK, of.LOOKED * 2 + of.SLACK),
    ),
    row(
        "sampler's command leaving children",
        "the adapter's command leaves a child in its group that holds its output, and prints the observation",
        "the observation counts, and its group is killed when it has ended (RA-7.4)",
        {},
    ),
    row(
        "store full",
        "the tmpfs under the store is filled, and freed",
        "a node that cannot record takes no new work (CT-4.6)",
        _store_full(),
        needs="namespace",
    ),
    row(
        "store damaged",
        "the tower starts on a store of which half is overwritten; then on the store as it was",
        "the damaged one is put aside and the node goes on; no node is silently new, so the adapter says no until it "
        "is back (RA-5.7)",
        {**_NEW_NODE, **_adapter_blind(of.STALE, _ADAPTER_AGAIN + of.SILENT)},
    ),
    row(
        "descriptors exhausted",
        "the tower's limit of open files is lowered to what it has, and clients hold what is free below; then both end",
        "it takes nobody and can probe nothing, so it is not ready; the probe listener has a reserve, and a node whose "
        "descriptors others hold is not restarted for it (HS-4.9); its adapter asks on the service's own port, where "
        "nobody is taken, and says not live",
        _exhausted(),
    ),
    row(
        "flood",
        "four times as many requests at once as the tower has places",
        "what is too much is refused, and probes are outside the cap (CT-4.1); the adapter sends no new work (RA-5.5)",
        _flooded(),
    ),
)
