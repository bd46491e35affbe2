"""Rules on which probes a Kubernetes container has, and on ports and kinds of probes that do not fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.inspection.findings import Met, Rule, Severity, clipped
from idkmesh.inspection.public import shown_port, shown_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.inspection.kubernetes import Container
    from idkmesh.inspection.manifests import Services

NO_READINESS: Final = Rule(
    id="PB120",
    severity=Severity.WARNING,
    title="A container behind a Service has no readiness probe",
    why="It gets traffic from the moment it is started, before it listens, and until the moment it is gone.",
    mend="Add a readinessProbe that succeeds once the process can serve.",
)
NO_PROBES: Final = Rule(
    id="PB121",
    severity=Severity.NOTE,
    title="A container has no probe at all",
    why="A process that hangs is running to Kubernetes, for ever, and a rollout goes on past it.",
    mend="Add a readinessProbe if it serves; a livenessProbe if it can hang, asking the process alone.",
)
NAMED_PORT: Final = Rule(
    id="PB122",
    severity=Severity.ERROR,
    title="A probe's named port is none of the container's ports",
    why="The kubelet cannot resolve the name, so every run of the probe fails.",
    mend="Name the port under ports, or write its number.",
)
UNDECLARED_PORT: Final = Rule(
    id="PB123",
    severity=Severity.NOTE,
    title="A probe asks a port that the container does not declare",
    why="Declaring is not needed for it to work, but the one of the two that is changed first leaves the other behind.",
    mend="Declare the port, give it a name and let the probe use the name.",
)
GRPC_PORT_NAME: Final = Rule(
    id="PB124",
    severity=Severity.ERROR,
    title="A gRPC probe's port is a name",
    why="Kubernetes wants a number there and refuses the object.",
    mend="Write the number of the port.",
)
HANDLERS: Final = Rule(
    id="PB125",
    severity=Severity.ERROR,
    title="A probe has no handler, or more than one",
    why="Kubernetes refuses the object: a probe has exactly one of httpGet, tcpSocket, grpc and exec.",
    mend="Keep one handler.",
)
INIT_PROBE: Final = Rule(
    id="PB126",
    severity=Severity.ERROR,
    title="An init container has a probe",
    why="Kubernetes refuses the object: an init container is done when it ends. A sidecar among the init containers "
    "(restartPolicy: Always) may have probes.",
    mend="Remove the probe, or make the container a sidecar.",
)
BATCH_LIVENESS: Final = Rule(
    id="PB127",
    severity=Severity.WARNING,
    title="A job has a liveness or startup probe",
    why="Work that keeps the processor busy answers late and is killed halfway. It ends by itself, and a limit on its "
    "time is there for one that does not.",
    mend="Remove the probe and set activeDeadlineSeconds.",
)
READINESS_GRACE: Final = Rule(
    id="PB128",
    severity=Severity.ERROR,
    title="A readiness probe has terminationGracePeriodSeconds",
    why="Kubernetes refuses the object: readiness never ends a container.",
    mend="Remove it, or set it on the liveness or startup probe.",
)
NATIVE_GRPC: Final = Rule(
    id="PB129",
    severity=Severity.NOTE,
    title="A gRPC probe starts a program",
    why="Kubernetes 1.27 and later ask gRPC health themselves. A program in the image costs a process each time, and "
    "must be kept up to date.",
    mend="Replace exec by grpc with the port, and the service if one is asked for.",
)


def _no_readiness(container: Container, services: Services) -> Iterator[Met]:
    if container.probe("readiness") is not None or container.init or container.pod.batch:
        return
    service = services.before(container)
    if service is not None:
        yield Met(container.node.place, f"Service {clipped(service.name) or '(no name)'} sends it traffic.")


def _no_probes(container: Container, services: Services) -> Iterator[Met]:
    if container.probes or container.init or container.pod.batch or services.before(container) is not None:
        return
    alone = len(container.pod.containers) == 1
    if container.pod.kind != "Pod" and (alone or container.node.at("ports").items):
        yield Met(container.node.place, "It has no liveness, readiness or startup probe.")


def _named_port(container: Container, _: Services) -> Iterator[Met]:
    for probe in container.probes:
        name = probe.port
        if name and probe.handler in {"httpGet", "tcpSocket"} and not name.isdigit():
            yield Met(probe.where(probe.handler, "port"), f"The {probe.which} probe asks port {shown_port(name)}.")


def _undeclared_port(container: Container, _: Services) -> Iterator[Met]:
    seen: set[str] = set()
    for probe in container.probes:
        port = probe.port
        if port.isdigit() and container.port_numbers and port not in container.port_numbers | seen:
            seen.add(port)
            yield Met(probe.where(probe.handler, "port"), f"The {probe.which} probe asks port {shown_port(port)}.")


def _grpc_port_name(container: Container, _: Services) -> Iterator[Met]:
    for probe in container.probes:
        node = probe.node.at("grpc", "port")
        if node and not node.text.isdigit():
            yield Met(probe.where("grpc", "port"), f"The {probe.which} probe asks port {shown_port(node.text)}.")


def _handlers(container: Container, _: Services) -> Iterator[Met]:
    for probe in container.probes:
        if len(probe.handlers) != 1:
            told = " and ".join(probe.handlers) or "none"
            yield Met(probe.where(), f"The {probe.which} probe has {told}.")


def _init_probe(container: Container, _: Services) -> Iterator[Met]:
    if container.init:
        for probe in container.probes:
            yield Met(probe.where(), f"It has a {probe.which} probe.")


def _batch_liveness(container: Container, _: Services) -> Iterator[Met]:
    if container.pod.batch and not container.init:
        for probe in container.probes:
            if probe.which != "readiness":
                yield Met(probe.where(), f"It has a {probe.which} probe.")


def _readiness_grace(container: Container, _: Services) -> Iterator[Met]:
    probe = container.probe("readiness")
    if probe is not None and probe.node.at("terminationGracePeriodSeconds"):
        yield Met(probe.where("terminationGracePeriodSeconds"), "It is set on the readiness probe.")


def _native_grpc(container: Container, _: Services) -> Iterator[Met]:
    for probe in container.probes:
        for program in probe.command.programs if probe.command is not None else ():
            if program.startswith(("grpc_health_probe", "grpc-health-probe")):
                yield Met(probe.where("exec"), f"The {probe.which} probe runs {shown_program(program)[:60]}.")


CONTAINER_CHECKS: Final[tuple[tuple[Rule, Callable[[Container, Services], Iterator[Met]]], ...]] = (
    (NO_READINESS, _no_readiness),
    (NO_PROBES, _no_probes),
    (NAMED_PORT, _named_port),
    (UNDECLARED_PORT, _undeclared_port),
    (GRPC_PORT_NAME, _grpc_port_name),
    (HANDLERS, _handlers),
    (INIT_PROBE, _init_probe),
    (BATCH_LIVENESS, _batch_liveness),
    (READINESS_GRACE, _readiness_grace),
    (NATIVE_GRPC, _native_grpc),
)
