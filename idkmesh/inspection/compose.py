"""What Compose files say of services, health checks and the order of starting, with Docker's defaults filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.clients import STORES
from idkmesh.inspection.commands import Command, from_argv, from_script, name_tokens
from idkmesh.inspection.findings import clipped
from idkmesh.inspection.starters import image_name, slow_starter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.inspection.documents import Node
    from idkmesh.inspection.findings import Place
    from idkmesh.inspection.starters import Starter

_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s|m|h))+")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_FORMS: Final = frozenset({"CMD", "CMD-SHELL", "NONE"})

DEFAULT_GRACE_SECONDS: Final = 10.0

WITHOUT_HEALTHCHECK: Final = frozenset(
    {"postgres", "mysql", "mariadb", "redis", "valkey", "mongo", "rabbitmq", "nginx", "httpd", "memcached", "traefik"}
    | {"elasticsearch", "kibana", "logstash", "cassandra", "zookeeper", "haproxy", "nats", "alpine", "busybox"}
)
"""Images of Docker's own library that declare no HEALTHCHECK."""


def seconds(node: Node, default: float) -> float:
    """Return a duration of Compose, ``1m30s``, in seconds; the default for what is none."""
    if not _DURATION.fullmatch(node.text[:60]):
        return default
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(node.text))


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """A health check. Times are seconds."""

    node: Node
    service_node: Node

    def where(self, *path: str) -> Place:
        """Return where a key of the check stands, else the check itself."""
        return self.service_node.where("healthcheck", *path)

    @property
    def disabled(self) -> bool:
        """Whether it switches off the image's own check."""
        test = self.node.at("test")
        return self.node.at("disable").is_true or test.words()[:1] == ("NONE",) or test.text == "NONE"

    @property
    def form(self) -> str:
        """How the test is written: ``CMD``, ``CMD-SHELL``, ``string``, else empty (no test, or one that is refused)."""
        test = self.node.at("test")
        if test.kind == "scalar":
            return "string" if test else ""
        words = test.words()
        return words[0] if words and words[0] in _FORMS else ""

    @cached_property
    def command(self) -> Command | None:
        """What the test runs. ``$$`` is Compose's way to write ``$``."""
        test = self.node.at("test")
        words = [word.replace("$$", "$") for word in test.words()]
        if self.form == "string":
            return from_script(test.text.replace("$$", "$"))
        if self.form == "CMD-SHELL" and len(words) > 1:
            return from_script(words[1])
        return from_argv(words[1:]) if self.form == "CMD" and len(words) > 1 else None

    @property
    def dollars(self) -> tuple[str, ...]:
        """The words of ``CMD`` in which a ``$`` is left: ``$$``. Compose itself fills in ``$NAME``."""
        return tuple(word.replace("$$", "$") for word in self.node.at("test").words()[1:] if "$$" in word)

    @property
    def interval(self) -> float:
        """Seconds between the end of a run and the next."""
        return seconds(self.node.at("interval"), 30.0)

    @property
    def timeout(self) -> float:
        """Seconds that a run may take."""
        return seconds(self.node.at("timeout"), 30.0)

    @property
    def retries(self) -> int:
        """Failures in a row that make it unhealthy."""
        return self.node.at("retries").integer(0) or 3

    @property
    def start_period(self) -> float:
        """Seconds in which a failure does not count."""
        return seconds(self.node.at("start_period"), 0.0)


@dataclass(frozen=True, kw_only=True)
class ComposeService:
    """One service of a Compose file."""

    name: str
    key: Node
    node: Node

    @property
    def object(self) -> str:
        """What a finding calls it."""
        return f"service {clipped(self.name)}"

    @property
    def image(self) -> str:
        """Its image, as it is written; empty where it is built or comes from elsewhere."""
        return self.node.at("image").text

    @property
    def from_elsewhere(self) -> bool:
        """Whether parts of it may stand in another file or image: it is built or extends another."""
        return bool(self.node.at("build") or self.node.at("extends") or not self.image)

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The parts of its own names: what they speak of is no dependency."""
        names = {self.name, self.node.at("hostname").text, self.node.at("container_name").text} - {""}
        return name_tokens(f"{self.name} {image_name(self.image)}") | names

    @cached_property
    def check(self) -> HealthCheck | None:
        """Its health check, if it declares one."""
        node = self.node.at("healthcheck")
        return HealthCheck(node=node, service_node=self.node) if node.kind == "mapping" else None

    @cached_property
    def variables(self) -> tuple[tuple[str, str, Place], ...]:
        """Its environment: name, value and place."""
        node = self.node.at("environment")
        if node.kind == "mapping":
            return tuple((key, value.text, node.where(key)) for key, value in node.values())
        parts = ((item.text.partition("="), item.place) for item in node.items)
        return tuple((name, value, place) for (name, _, value), place in parts)

    @property
    def grace(self) -> float:
        """Seconds from SIGTERM to SIGKILL."""
        return seconds(self.node.at("stop_grace_period"), DEFAULT_GRACE_SECONDS)

    @cached_property
    def program(self) -> Command:
        """What it runs, as far as the file says."""
        node = self.node.at("command")
        return from_argv(node.words()) if node.kind == "sequence" else from_script(node.text)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        node = self.node.at("labels")
        pairs = (item.text.partition("=") for item in node.items)
        return {name: value for name, _, value in pairs} | {key: value.text for key, value in node.values()}

    @cached_property
    def depends_on(self) -> tuple[tuple[str, str, Place], ...]:
        """What it waits for: the service's name, the condition (``service_started`` by default), and the place."""
        node = self.node.at("depends_on")
        if node.kind == "mapping":
            return tuple(
                (name, value.at("condition").text or "service_started", node.where(name))
                for name, value in node.values()
            )
        return tuple((item.text, "service_started", item.place) for item in node.items if item.kind == "scalar")

    @cached_property
    def starter(self) -> Starter | None:
        """What it is known as, if that starts slowly."""
        return slow_starter(self.image, (name for name, _, _ in self.variables))

    @property
    def store(self) -> str | None:
        """The store that its image is, or None."""
        tokens = name_tokens(image_name(self.image))
        return next((store for store, names in STORES.items() if tokens & names), None)


@dataclass(frozen=True, kw_only=True)
class Project:
    """The services of a Compose file, and who waits for whom."""

    services: dict[str, ComposeService]

    @cached_property
    def waited_for(self) -> dict[str, frozenset[str]]:
        """By a service's name the conditions under which others start after it."""
        conditions: dict[str, set[str]] = {}
        for service in self.services.values():
            for name, condition, _ in service.depends_on:
                conditions.setdefault(name, set()).add(condition)
        return {name: frozenset(each) for name, each in conditions.items()}

    def __iter__(self) -> Iterator[ComposeService]:
        return iter(self.services.values())


def is_compose(document: Node) -> bool:
    """Say whether a document is a Compose file: it has services, each a mapping, and is of no other kind."""
    services = document.at("services")
    return services.kind == "mapping" and not document.at("kind") and not document.at("apiVersion")


def project_of(document: Node) -> Project:
    """Return the services of a Compose file."""
    entries = document.at("services").entries.items()
    return Project(
        services={
            name: ComposeService(name=name, key=key, node=value)
            for name, (key, value) in entries
            if value.kind == "mapping"
        }
    )
