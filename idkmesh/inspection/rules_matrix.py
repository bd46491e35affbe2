"""Rules on a probe matrix, and on a manifest beside its matrix.

What cannot be is refused by the loader (HL-3.2, HL-3.3). What stands here can be, and does not do what it seems to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.health.model import Command, Dns, Grpc, Http, Tcp
from idkmesh.health.rounds import CONCURRENCY, noncritical_places
from idkmesh.inspection.clients import DEPENDENCY_WORDS, STORES, store_of
from idkmesh.inspection.commands import from_argv, name_tokens
from idkmesh.inspection.findings import Met, Place, Rule, Severity
from idkmesh.inspection.public import shown_host
from idkmesh.inspection.rules_commands import ProbeCommand
from idkmesh.inspection.rules_timing import PAUSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from idkmesh.health.model import Dependency, Figures, ProbeMatrix
    from idkmesh.inspection.kubernetes import Probe

    Path = tuple[str | int, ...]

HIDING_MS: Final = 60_000
FLAPPING_MS: Final = 5_000

REFUSED: Final = Rule(
    id="PB401",
    severity=Severity.ERROR,
    title="The matrix is refused",
    why="No service starts with it, and one that runs keeps the matrix that it has.",
    mend="Mend what the line says.",
)
HIDES: Final = Rule(
    id="PB402",
    severity=Severity.WARNING,
    title="A threshold hides a noncritical failure",
    why="A noncritical dependency changes nothing but a warning. A warning that comes after a minute of failing is "
    "missed by those who look for the cause in that minute.",
    mend="Lower failure_threshold or interval_ms: a warning takes no traffic away.",
)
TOO_MUCH: Final = Rule(
    id="PB404",
    severity=Severity.WARNING,
    title="The probes do not fit their intervals",
    why=f"At most {CONCURRENCY} probes run at once, and at most {noncritical_places(CONCURRENCY)} noncritical ones. "
    "In an outage each takes its whole timeout, so that the others come late, and their results expire.",
    mend="Lower timeout_ms, or raise interval_ms.",
)
WATCHDOG_SLOW: Final = Rule(
    id="PB405",
    severity=Severity.WARNING,
    title="The watchdog's budget is not below that of liveness",
    why="A process that hangs is noticed by the watchdog first and restarted by liveness then. With a budget as long "
    "as the orchestrator's the restart takes twice as long as the figures of liveness promise.",
    mend="Lower interval_ms x max_missed_ticks of the watchdog.",
)
READINESS_SLOW: Final = Rule(
    id="PB406",
    severity=Severity.WARNING,
    title="Readiness is slower than its figures promise",
    why="The orchestrator asks often and is answered from a result that is old: traffic goes on to an instance whose "
    "critical dependency has been down for longer than period x failures.",
    mend="Lower interval_ms of the dependency to the period of readiness or below.",
)
LIVENESS_STRICTER: Final = Rule(
    id="PB407",
    severity=Severity.WARNING,
    title="Liveness is stricter than readiness in the orchestrator's figures",
    why="A busy instance is restarted before it has been taken out of traffic.",
    mend="Give liveness a larger period_ms x failure_threshold than readiness.",
)
LIVENESS_HASTY: Final = Rule(
    id="PB408",
    severity=Severity.WARNING,
    title="Liveness gives up within a pause in the orchestrator's figures",
    why=f"A collection of garbage or a throttled processor stops a healthy process for seconds; below {PAUSE_SECONDS} "
    "s it is restarted for that.",
    mend=f"Let period_ms x (failure_threshold - 1) + timeout_ms of liveness be {PAUSE_SECONDS * 1000} at the least.",
)
FLAPS: Final = Rule(
    id="PB409",
    severity=Severity.NOTE,
    title="A critical dependency comes back with its first success",
    why="A dependency that answers now and then brings traffic back each time, and takes it away again.",
    mend="Set success_threshold to 2 or more.",
)
NOT_IN_MATRIX: Final = Rule(
    id="PB410",
    severity=Severity.WARNING,
    title="A store is used that the matrix lacks",
    why="The matrix is the source of truth for stores on the serving path. One that it lacks is never probed: when it "
    "is down, the instance stays ready and fails its requests.",
    mend="Add the dependency to the matrix and say whether it is critical.",
)
OTHER_FIGURES: Final = Rule(
    id="PB411",
    severity=Severity.WARNING,
    title="The manifest's figures are not those of the matrix",
    why="The matrix was checked against figures that are not in force: a timeout that was below the orchestrator's may "
    "be above it.",
    mend="Bring orchestrator in the matrix and the probe in the manifest together.",
)
STARTUP_SHORT: Final = Rule(
    id="PB412",
    severity=Severity.ERROR,
    title="The startup is over before each probe can have run once",
    why="Startup succeeds when each probe has run once, whatever came of it. Where all of them hang, that takes longer "
    "than the orchestrator waits: it kills a healthy process for an outage, and the next one after it.",
    mend="Give startup a larger period_ms x failure_threshold, or name fewer dependencies, or lower timeout_ms.",
)
BARE_CONNECT: Final = Rule(
    id="PB413",
    severity=Severity.NOTE,
    title="A critical database is asked whether its port is open",
    why="The kernel accepts connections for a program that hangs or is paused. A probe that only connects finds it ok, "
    "and the instance stays ready and fails its requests.",
    mend="Ask it by a client, in a command probe.",
)
_CLIENTS: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    5432: ("PostgreSQL", ("pg_isready", "-h", "HOST")),
    3306: ("MySQL", ("mysqladmin", "-h", "HOST", "ping")),
    6379: ("Redis", ("redis-cli", "-h", "HOST", "-e", "ping")),
    27017: ("MongoDB", ("mongosh", "--host", "HOST", "--quiet", "--eval", "db.hello().ok")),
    1433: ("SQL Server", ("sqlcmd", "-S", "HOST", "-Q", "SELECT 1")),
    9042: ("Cassandra", ("cqlsh", "HOST", "-e", "SHOW VERSION")),
}
"""By its usual port a store, and a client that has it answer."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A matrix and where its keys stand: ``("dependencies", 0, "cache_ms")`` to a place."""

    matrix: ProbeMatrix
    positions: Mapping[Path, Place]

    def where(self, *path: str | int) -> Place:
        """Return where a key stands, else the nearest that it stands in, else the file's beginning."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.positions:
                return self.positions[path[:length]]
        return Place(1, 1)

    def rows(self) -> Iterator[tuple[int, Dependency]]:
        """Give each dependency with its number."""
        return enumerate(self.matrix.dependencies)


def _budget(figures: Figures) -> int:
    return figures.period_ms * figures.failure_threshold


def _hides(placed: Placed) -> Iterator[Met]:
    for number, row in placed.rows():
        late = row.failure_threshold * row.interval_ms
        if not row.critical and row.failure_threshold > 1 and late > HIDING_MS:
            reason = f"{row.name} is told of after {row.failure_threshold} x {row.interval_ms} ms."
            yield Met(placed.where("dependencies", number, "failure_threshold"), reason)


def _too_much(placed: Placed) -> Iterator[Met]:
    rows = [row for _, row in placed.rows() if row.interval_ms > 0]
    busy = sum(row.timeout_ms / row.interval_ms for row in rows)
    noncritical = sum(row.timeout_ms / row.interval_ms for row in rows if not row.critical)
    if busy > CONCURRENCY:
        reason = f"With every dependency down {busy:.1f} probes would have to run at once."
        yield Met(placed.where("dependencies"), reason)
    elif noncritical > noncritical_places(CONCURRENCY):
        reason = f"With every noncritical dependency down {noncritical:.1f} of their probes would have to run at once."
        yield Met(placed.where("dependencies"), reason)


def _watchdog_slow(placed: Placed) -> Iterator[Met]:
    watchdog = placed.matrix.watchdog
    budget = watchdog.interval_ms * watchdog.max_missed_ticks
    liveness = _budget(placed.matrix.orchestrator.liveness)
    if budget >= liveness:
        yield Met(placed.where("watchdog"), f"The watchdog waits {budget} ms, liveness {liveness} ms more.")


def _readiness_slow(placed: Placed) -> Iterator[Met]:
    promised = _budget(placed.matrix.orchestrator.readiness)
    for number, row in placed.rows():
        noticed = row.interval_ms * row.failure_threshold + row.timeout_ms
        if row.critical and noticed > promised:
            reason = f"{row.name} is noticed after up to {noticed} ms, readiness promises {promised} ms."
            yield Met(placed.where("dependencies", number, "interval_ms"), reason)


def _liveness_stricter(placed: Placed) -> Iterator[Met]:
    figures = placed.matrix.orchestrator
    if _budget(figures.liveness) < _budget(figures.readiness):
        reason = f"Liveness acts after {_budget(figures.liveness)} ms, readiness after {_budget(figures.readiness)} ms."
        yield Met(placed.where("orchestrator", "liveness"), reason)


def _liveness_hasty(placed: Placed) -> Iterator[Met]:
    figures = placed.matrix.orchestrator.liveness
    least = figures.period_ms * (figures.failure_threshold - 1) + figures.timeout_ms
    if least < PAUSE_SECONDS * 1000:
        yield Met(placed.where("orchestrator", "liveness"), f"A pause of {least} ms can restart it.")


def _flaps(placed: Placed) -> Iterator[Met]:
    for number, row in placed.rows():
        if row.critical and row.success_threshold == 1 and row.interval_ms < FLAPPING_MS:
            reason = f"{row.name} is asked every {row.interval_ms} ms, and one success brings traffic back."
            yield Met(placed.where("dependencies", number, "success_threshold"), reason)


def _startup_short(placed: Placed) -> Iterator[Met]:
    rows = placed.matrix.dependencies
    critical = sum(row.timeout_ms for row in rows if row.critical) / CONCURRENCY
    others = sum(row.timeout_ms for row in rows if not row.critical) / noncritical_places(CONCURRENCY)
    # Each place is busy all the time but at the end, when the longest run may have begun last.
    longest = critical + others + max((row.timeout_ms for row in rows), default=0)
    budget = _budget(placed.matrix.orchestrator.startup)
    if longest > budget:
        reason = f"The first round of probes may take {longest:.0f} ms, the orchestrator waits {budget} ms."
        yield Met(placed.where("orchestrator", "startup"), reason)


def _bare_connect(placed: Placed) -> Iterator[Met]:
    for number, row in placed.rows():
        if row.critical and isinstance(row.probe, Tcp) and row.probe.port in _CLIENTS:
            store, words = _CLIENTS[row.probe.port]
            argv = ", ".join(shown_host(row.probe.host) if word == "HOST" else word for word in words)
            mend = f"Ask it by a client: command: {{argv: [{argv}]}}. (A rehearsal can fail tcp and http probes alone.)"
            reason = f"{row.name}: port {row.probe.port} is open while {store} is paused, too."
            yield Met(placed.where("dependencies", number, "probe"), reason, mend)


MATRIX_CHECKS: Final[tuple[tuple[Rule, Callable[[Placed], Iterator[Met]]], ...]] = (
    (HIDES, _hides),
    (TOO_MUCH, _too_much),
    (WATCHDOG_SLOW, _watchdog_slow),
    (READINESS_SLOW, _readiness_slow),
    (LIVENESS_STRICTER, _liveness_stricter),
    (LIVENESS_HASTY, _liveness_hasty),
    (FLAPS, _flaps),
    (STARTUP_SHORT, _startup_short),
    (BARE_CONNECT, _bare_connect),
)


def probe_commands(placed: Placed) -> Iterator[tuple[str, ProbeCommand]]:
    """Give the commands that the matrix runs, with the name of the dependency of each."""
    for number, row in placed.rows():
        if isinstance(row.probe, Command):
            place = placed.where("dependencies", number, "probe")
            timeout_place = placed.where("dependencies", number, "timeout_ms")
            yield (
                row.name,
                ProbeCommand(
                    command=from_argv(row.probe.argv),
                    place=place,
                    timeout=row.timeout_ms / 1000,
                    timeout_place=timeout_place,
                    by_kubelet=False,
                    dollars=tuple(row.probe.argv),
                ),
            )


def known_stores(matrix: ProbeMatrix) -> frozenset[str]:
    """Return the hosts and the parts of the names that the matrix speaks of, in lower case."""
    known: set[str] = set()
    for row in matrix.dependencies:
        # "orders-db" is not every "db".
        known |= (name_tokens(row.name) - DEPENDENCY_WORDS) | {row.name.lower()}
        probe = row.probe
        if isinstance(probe, Tcp):
            known |= {probe.host.lower(), probe.host.lower().partition(".")[0]}
        elif isinstance(probe, Http):
            known |= name_tokens(probe.url)
        elif isinstance(probe, Dns | Grpc):
            text = probe.name if isinstance(probe, Dns) else probe.target
            known |= {text.lower().partition(":")[0], text.lower().partition(".")[0].partition(":")[0]}
        elif isinstance(probe, Command):
            known |= name_tokens(" ".join(probe.argv))
    return frozenset(known)


_SOME_DATABASE: Final = "a database"
_DATABASE_VARIABLE: Final = re.compile(r"/(?:\w*_)?(?:DATABASE|DB)_(?:URL|URI|DSN|HOST|HOSTNAME|ADDR|ADDRESS)(?:/|$)")
"""A variable that says where a database is. Its value is often a secret, which a manifest does not show."""

_DATABASE_WORDS: Final = frozenset({"db", "database", "databases", "sql"}).union(
    *(STORES[name] for name in ("PostgreSQL", "MySQL", "MongoDB", "SQL Server", "Cassandra"))
)


def lacking_store(text: str, known: frozenset[str]) -> str | None:
    """Return the store that a name or an address speaks of and the matrix does not, or None.

    The matrix knows it by its host or by what it is: ``orders-db`` for a variable ``POSTGRES_HOST=orders-db``, or any
    PostgreSQL.
    """
    store = store_of(text)
    if store is None and _DATABASE_VARIABLE.search(text):
        store = _SOME_DATABASE
        if any(name_tokens(name) & _DATABASE_WORDS for name in known):
            return None
    if store is None or known & STORES.get(store, frozenset()):
        return None
    hosts = {part.partition(".")[0] for part in text.lower().replace("//", "/").replace("@", "/").split("/")}
    hosts |= {part.partition(":")[0] for part in hosts}
    return None if hosts & known - {""} else store


_PATHS: Final = {"/readyz": "readiness", "/livez": "liveness", "/healthz": "liveness", "/startupz": "startup"}


def other_figures(probe: Probe, matrix: ProbeMatrix) -> Iterator[Met]:
    """Hold a probe that asks a path of ours against the figures that the matrix writes down for it."""
    if probe.handler != "httpGet" or _PATHS.get(probe.path) != probe.which:
        return
    figures: Figures = getattr(matrix.orchestrator, probe.which)
    pairs = (
        ("periodSeconds", probe.period * 1000, figures.period_ms),
        ("timeoutSeconds", probe.timeout * 1000, figures.timeout_ms),
        ("failureThreshold", probe.failures, figures.failure_threshold),
    )
    for key, here, there in pairs:
        if here != there:
            unit = "" if key == "failureThreshold" else " ms"
            yield Met(probe.where(key), f"{key} is {here}{unit} here, {there}{unit} in the matrix.")
