"""Rules on what the probes of a Kubernetes container ask: liveness asks the process, readiness what it needs (HL-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.inspection.clients import READY_WORDS, named_dependency, store_words
from idkmesh.inspection.commands import name_tokens
from idkmesh.inspection.findings import Met, Rule, Severity, clipped
from idkmesh.inspection.public import shown_argument, shown_host, shown_path, shown_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.inspection.kubernetes import Container, Probe

LENIENT: Final = 2
"""Liveness that takes this many times the budget of readiness acts on the same answer clearly later."""

SAME_AS_READINESS: Final = Rule(
    id="PB101",
    severity=Severity.WARNING,
    title="Liveness asks the same as readiness",
    why="One answer cannot say both. If it covers dependencies, an outage of one restarts every healthy process at "
    "once; if it does not, traffic goes to processes that cannot serve it.",
    mend="Let liveness ask the process alone (/livez), and readiness what it needs to serve (/readyz).",
)
SAME_BUT_LATER: Final = Rule(
    id="PB102",
    severity=Severity.NOTE,
    title="Liveness asks the same as readiness, later",
    why="A larger budget takes a process out of traffic before it is restarted. It is still one answer: once it covers "
    "a dependency, an outage that lasts longer than the budget restarts every healthy process.",
    mend="Keep that answer free of dependencies, or let liveness ask something of its own.",
)
NAMES_DEPENDENCY: Final = Rule(
    id="PB103",
    severity=Severity.ERROR,
    title="Liveness names a dependency or readiness",
    why="A restart does not mend a database. While it is down every healthy process is restarted, and all of them "
    "connect at once when it comes back.",
    mend="Ask for the dependency in readiness, and let liveness ask the process alone.",
)
AGGREGATE: Final = Rule(
    id="PB104",
    severity=Severity.WARNING,
    title="Liveness asks an endpoint that covers dependencies",
    why="Some endpoints sum up more than the process: Spring Boot's /actuator/health is down when its database, "
    "Redis or disk is; a cluster's health is that of other nodes.",
    mend="Ask the endpoint that is about this process alone: /actuator/health/liveness, or the node's own.",
)
OTHER_HOST: Final = Rule(
    id="PB105",
    severity=Severity.ERROR,
    title="Liveness or startup asks another host",
    why="The answer is that of another machine, and the punishment, a restart, hits this one.",
    mend="Leave host out: the kubelet asks the pod's own address. For a virtual host send the header Host.",
)
HOST_FIELD: Final = Rule(
    id="PB106",
    severity=Severity.WARNING,
    title="A probe has a host field",
    why="The kubelet connects to that host from the node. 127.0.0.1 is then the node itself, not the pod, unless the "
    "pod has hostNetwork; another name is another machine.",
    mend="Leave host out. For a virtual host send the header Host.",
)
STARTUP_DEPENDENCY: Final = Rule(
    id="PB107",
    severity=Severity.WARNING,
    title="Startup names a dependency",
    why="A dependency that is down while a process starts has it killed when the startup budget ends, again and again, "
    "though nothing is wrong with it.",
    mend="Let startup ask whether the process is initialised, and readiness for the dependency.",
)
PATH_CHANGES: Final = Rule(
    id="PB109",
    severity=Severity.ERROR,
    title="A probe's path changes something",
    why="A probe asks every few seconds, of every instance, and again after its timeout. What a migration or a restart "
    "does once is done a thousand times.",
    mend="Ask a path that only reads. Migrate before the start, in a job or an init container.",
)
TCP: Final = Rule(
    id="PB108",
    severity=Severity.NOTE,
    title="A TCP probe shows a listener and no more",
    why="The kernel accepts connections for a process that hangs, and for one that is not initialised yet.",
    mend="Ask by HTTP, gRPC or a client of the program's protocol, so that the process itself answers.",
)


def _unified(path: str) -> str:
    return path.partition("?")[0].rstrip("/").lower()


def _asks(probe: Probe) -> tuple[str, ...] | None:
    """Return what a probe asks, without what does not change the answer; None where it asks nothing."""
    if probe.handler == "exec":
        command = probe.command
        return ("exec", *map(str, command.simple)) if command is not None else None
    if probe.handler == "httpGet":
        return ("httpGet", probe.port, probe.host, _unified(probe.path))
    if probe.handler == "grpc":
        return ("grpc", probe.port, probe.node.at("grpc", "service").text)
    return (probe.handler, probe.port, probe.host) if probe.handler else None


def _said(probe: Probe) -> str:
    if probe.command is not None:
        return f"run {probe.command.text}"
    if probe.handler == "httpGet":
        return f"GET {clipped(shown_path(probe.path))} of port {shown_port(probe.port)}"
    return f"{'ask gRPC health of' if probe.handler == 'grpc' else 'connect to'} port {shown_port(probe.port)}"


def _same(container: Container, *, later: bool) -> Iterator[Met]:
    liveness, readiness = container.probe("liveness"), container.probe("readiness")
    if liveness is None or readiness is None or _asks(liveness) is None or _asks(liveness) != _asks(readiness):
        return
    if (liveness.budget >= LENIENT * readiness.budget) is not later:
        return
    reason = f"Both {_said(liveness)}."
    if later:
        reason += f" Liveness acts after {liveness.budget} s, readiness after {readiness.budget} s."
    yield Met(liveness.where(), reason, None if later else _APART.get(liveness.handler))


_APART: Final = {
    "grpc": "Give liveness a service name of its own (grpc: {service: liveness}) that covers the process alone.",
    "tcpSocket": "Let readiness ask the program by its protocol (a client's ping, HTTP, gRPC), so that a listener that "
    "hangs gets no traffic.",
    "exec": "Let liveness run what asks the process alone, and readiness what it needs to serve.",
}
"""How the two are told apart where the probe has no path."""


def _same_as_readiness(container: Container) -> Iterator[Met]:
    return _same(container, later=False)


def _same_but_later(container: Container) -> Iterator[Met]:
    return _same(container, later=True)


def _dependency_of(probe: Probe, container: Container, *, ready: bool) -> tuple[str, tuple[str, ...]] | None:
    """Return what a probe names beyond its own process, and where it stands below the probe."""
    if probe.command is not None:
        told = named_dependency(probe.command, container.own_names, ready=ready)
        return (told, ("exec", "command")) if told else None
    text = probe.path if probe.handler == "httpGet" else probe.node.at("grpc", "service").text
    words = store_words(text, container.own_names)
    where = ("httpGet", "path") if probe.handler == "httpGet" else ("grpc", "service")
    if ready and not words and name_tokens(text) & READY_WORDS:
        return f"{clipped(shown_path(text))} is readiness by its name", where
    return (f"{shown_path(text)[:80]} names {', '.join(sorted(words))}", where) if words else None


def _names_dependency(container: Container) -> Iterator[Met]:
    probe = container.probe("liveness")
    told = _dependency_of(probe, container, ready=True) if probe is not None else None
    if probe is not None and told is not None:
        yield Met(probe.where(*told[1]), f"{told[0]}.")


def _startup_dependency(container: Container) -> Iterator[Met]:
    probe = container.probe("startup")
    told = _dependency_of(probe, container, ready=False) if probe is not None else None
    if probe is not None and told is not None:
        yield Met(probe.where(*told[1]), f"{told[0]}.")


_AGGREGATES: Final = {
    "/actuator/health": "Spring Boot sums up every indicator there",
    "/_cluster/health": "It is the health of the whole cluster",
}


def _aggregate(container: Container) -> Iterator[Met]:
    probe = container.probe("liveness")
    if probe is None:
        return
    if probe.handler == "httpGet":
        for ending, told in _AGGREGATES.items():
            if _unified(probe.path).endswith(ending):
                yield Met(
                    probe.where("httpGet", "path"), f"{clipped(shown_path(probe.path))}: {told[0].lower() + told[1:]}."
                )
    elif probe.command is not None:
        words = {word for simple in probe.command.simple for word in simple.words}
        for word in sorted(words):
            if word in {"cluster_status", "--cluster"} or any(word.rstrip("/").endswith(each) for each in _AGGREGATES):
                yield Met(
                    probe.where("exec", "command"), f"{shown_argument(word)[:80]} is about more than this process."
                )


_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})  # noqa: S104  compared, not bound


def _other_host(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        if probe.which != "readiness" and probe.host and probe.host not in _LOOPBACK:
            yield Met(
                probe.where(probe.handler, "host"), f"The {probe.which} probe asks {shown_host(probe.host)[:80]}."
            )


def _host_field(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        loopback = probe.host in _LOOPBACK
        on_node = loopback and container.pod.spec.at("hostNetwork").is_true
        if probe.host and not on_node and (loopback or probe.which == "readiness"):
            told = "the node's loopback, not the pod" if loopback else "another machine"
            yield Met(
                probe.where(probe.handler, "host"),
                f"The {probe.which} probe asks {shown_host(probe.host)[:80]}, {told}.",
            )


_CHANGING: Final = frozenset({"migrate", "run-migrations", "flush", "purge", "reindex", "reset", "restart", "shutdown"})
"""Last parts of paths that say what is done: ``/admin/migrate``, and not ``/migrate/status``."""


def _path_changes(container: Container) -> Iterator[Met]:
    for probe in container.probes:
        if probe.handler == "httpGet" and _unified(probe.path).rpartition("/")[2] in _CHANGING:
            yield Met(
                probe.where("httpGet", "path"), f"The {probe.which} probe asks {clipped(shown_path(probe.path))}."
            )


def _tcp(container: Container) -> Iterator[Met]:
    probes = [probe for probe in container.probes if probe.handler == "tcpSocket" and probe.which != "startup"]
    if probes:
        names = " and ".join(probe.which for probe in probes)
        yield Met(
            probes[0].where("tcpSocket"),
            f"{names.capitalize()}: port {shown_port(probes[0].port)} is open, says no more.",
        )


CONTAINER_CHECKS: Final[tuple[tuple[Rule, Callable[[Container], Iterator[Met]]], ...]] = (
    (SAME_AS_READINESS, _same_as_readiness),
    (SAME_BUT_LATER, _same_but_later),
    (NAMES_DEPENDENCY, _names_dependency),
    (AGGREGATE, _aggregate),
    (OTHER_HOST, _other_host),
    (HOST_FIELD, _host_field),
    (STARTUP_DEPENDENCY, _startup_dependency),
    (TCP, _tcp),
    (PATH_CHANGES, _path_changes),
)
