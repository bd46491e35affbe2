"""What a Kubernetes manifest says of a pod, its containers and their probes, with the platform's defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.commands import Command, from_argv, name_tokens
from idkmesh.inspection.findings import clipped
from idkmesh.inspection.starters import image_name, slow_starter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.inspection.documents import Node
    from idkmesh.inspection.findings import Place
    from idkmesh.inspection.starters import Starter

_BATCH: Final = frozenset({"Job", "CronJob"})
_HANDLERS: Final = ("httpGet", "tcpSocket", "grpc", "exec")
DEFAULT_GRACE_SECONDS: Final = 30


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One probe of a container. Times are seconds; what is left out has the default of Kubernetes."""

    which: str
    """``liveness``, ``readiness`` or ``startup``."""
    node: Node
    container_node: Node
    ports: Mapping[str, str]
    """The container's named ports."""

    @property
    def key(self) -> str:
        """How the manifest calls it."""
        return f"{self.which}Probe"

    def where(self, *path: str) -> Place:
        """Return where a key of the probe stands, else the probe itself."""
        return self.container_node.where(self.key, *path)

    def _figure(self, name: str, default: int) -> int:
        return self.node.at(name).integer(0) or default  # 0 is the default to Kubernetes

    @property
    def period(self) -> int:
        """Seconds between two runs."""
        return self._figure("periodSeconds", 10)

    @property
    def timeout(self) -> int:
        """Seconds that a run may take."""
        return self._figure("timeoutSeconds", 1)

    @property
    def failures(self) -> int:
        """Failures in a row that count."""
        return self._figure("failureThreshold", 3)

    @property
    def successes(self) -> int:
        """Successes in a row that count."""
        return self._figure("successThreshold", 1)

    @property
    def delay(self) -> int:
        """Seconds before the first run."""
        return self._figure("initialDelaySeconds", 0)

    @property
    def budget(self) -> int:
        """Seconds of failing until the verdict changes: period x failures."""
        return self.period * self.failures

    @property
    def least(self) -> int:
        """The shortest pause, in seconds, that can change the verdict: between N runs there are N - 1 periods."""
        return self.period * (self.failures - 1) + self.timeout

    @cached_property
    def handlers(self) -> tuple[str, ...]:
        """The kinds of handler that it declares; Kubernetes wants one."""
        return tuple(name for name in _HANDLERS if name in self.node.entries)

    @property
    def handler(self) -> str:
        """The first handler's kind, empty where there is none."""
        return self.handlers[0] if self.handlers else ""

    @property
    def port(self) -> str:
        """The port as a number in digits where that is known, else as it is written."""
        text = self.node.at(self.handler, "port").text
        return self.ports.get(text, text)

    @property
    def path(self) -> str:
        """The path of an HTTP probe, with its query."""
        return self.node.at("httpGet", "path").text or "/"

    @property
    def host(self) -> str:
        """The host that it names, empty for the pod's own address."""
        return self.node.at(self.handler, "host").text

    @cached_property
    def command(self) -> Command | None:
        """The command of an exec probe."""
        words = self.node.at("exec", "command").words()
        return from_argv(words) if words else None


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container. ``init`` says that it ends before the others start; a sidecar among those does not."""

    node: Node
    pod: Pod
    init: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.at("name").text

    @property
    def image(self) -> str:
        """Its image, as it is written."""
        return self.node.at("image").text

    @property
    def object(self) -> str:
        """What a finding calls it."""
        kind = "init container" if self.init else "container"
        return f"{self.pod.object}, {kind} {clipped(self.name) or '(no name)'}"

    @property
    def first(self) -> bool:
        """Whether it is the first of its pod that goes on running: what is the pod's own is told of it alone."""
        return not self.init and self.node is self.pod.containers[0].node

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The parts of its own names: what they speak of is no dependency."""
        return name_tokens(f"{self.name} {image_name(self.image)}") | {self.name, self.pod.name}

    @cached_property
    def named_ports(self) -> dict[str, str]:
        """Named ports and their numbers."""
        ports = self.node.at("ports").items
        return {name: port.at("containerPort").text for port in ports if (name := port.at("name").text)}

    @cached_property
    def port_numbers(self) -> frozenset[str]:
        """Declared port numbers, in digits."""
        return frozenset(port.at("containerPort").text for port in self.node.at("ports").items)

    @cached_property
    def variables(self) -> tuple[tuple[Node, str], ...]:
        """The names of its environment variables and their values, empty where a value comes from elsewhere."""
        return tuple((entry.at("name"), entry.at("value").text) for entry in self.node.at("env").items)

    @cached_property
    def _probes(self) -> dict[str, Probe]:
        nodes = {which: self.node.at(f"{which}Probe") for which in ("startup", "liveness", "readiness")}
        return {
            which: Probe(which=which, node=node, container_node=self.node, ports=self.named_ports)
            for which, node in nodes.items()
            if node.kind == "mapping"
        }

    def probe(self, which: str) -> Probe | None:
        """Return the liveness, readiness or startup probe, if there is one."""
        return self._probes.get(which)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every probe it has: startup, liveness, readiness."""
        return tuple(self._probes.values())

    @cached_property
    def program(self) -> Command:
        """What it runs, as far as the manifest says."""
        return from_argv((*self.node.at("command").words(), *self.node.at("args").words()))

    @cached_property
    def starter(self) -> Starter | None:
        """What it is known as, if that starts slowly."""
        program = self.program.programs[0] if self.program.programs else ""
        return slow_starter(self.image, (name.text for name, _ in self.variables), program)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod, or the template of many."""

    kind: str
    name: str
    namespace: str
    node: Node
    """The pod's own metadata and spec."""

    @property
    def object(self) -> str:
        """What a finding calls it."""
        return f"{self.kind}/{clipped(self.name) or '(no name)'}"

    @property
    def spec(self) -> Node:
        """The pod's specification."""
        return self.node.at("spec")

    @property
    def batch(self) -> bool:
        """Whether it is to end by itself."""
        return self.kind in _BATCH

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels that Services select it by."""
        return {key: value.text for key, value in self.node.at("metadata", "labels").values()}

    @property
    def grace(self) -> int:
        """Seconds from SIGTERM to SIGKILL, the preStop hook included."""
        return self.spec.at("terminationGracePeriodSeconds").integer(DEFAULT_GRACE_SECONDS)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Its containers that go on running: sidecars too."""
        sidecars = [node for node in self.spec.at("initContainers").items if _is_sidecar(node)]
        nodes = [*sidecars, *self.spec.at("containers").items]
        return tuple(Container(node=node, pod=self) for node in nodes if node.kind == "mapping")

    @cached_property
    def init_containers(self) -> tuple[Container, ...]:
        """Its containers that end before the others start."""
        nodes = self.spec.at("initContainers").items
        return tuple(
            Container(node=node, pod=self, init=True)
            for node in nodes
            if node.kind == "mapping" and not _is_sidecar(node)
        )


def _is_sidecar(node: Node) -> bool:
    return node.at("restartPolicy").text == "Always"
