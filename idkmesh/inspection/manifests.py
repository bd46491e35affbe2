"""The objects of Kubernetes manifests: which of them are workloads, and which Services send them traffic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.kubernetes import Pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from idkmesh.inspection.documents import Node
    from idkmesh.inspection.kubernetes import Container

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "DeploymentConfig": ("spec", "template"),
    "Rollout": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""Where each kind keeps its pod."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a Service selects, and the container ports it sends traffic to."""

    name: str
    namespace: str
    selector: Mapping[str, str]
    target_ports: frozenset[str]
    unready_too: bool

    def selects(self, pod: Pod) -> bool:
        """Say whether a pod is behind it."""
        same = self.namespace == pod.namespace or not self.namespace or not pod.namespace
        return same and bool(self.selector) and self.selector.items() <= pod.labels.items()

    def reaches(self, container: Container) -> bool:
        """Say whether its traffic comes to a container: it declares a port that is a target, or is the only one."""
        if not self.selects(container.pod) or self.unready_too or container.init:
            return False
        known = container.port_numbers | container.named_ports.keys()
        return bool(known & self.target_ports) or len(container.pod.containers) == 1


def is_manifest(document: Node) -> bool:
    """Say whether a document is of Kubernetes: it has a kind and an API version."""
    return bool(document.at("apiVersion").text and document.at("kind").text)


def objects(documents: Sequence[Node]) -> Iterator[Node]:
    """Give each object of the documents, those of a List too."""
    for document in documents:
        if document.at("kind").text.endswith("List") and document.at("items").kind == "sequence":
            yield from (item for item in document.at("items").items if is_manifest(item))
        elif is_manifest(document):
            yield document


def pod_of(item: Node) -> Pod | None:
    """Return the pod of a workload, None for any other object."""
    kind = item.at("kind").text
    path = _TEMPLATES.get(kind)
    if path is None:
        return None
    metadata = item.at("metadata")
    name = metadata.at("name").text or metadata.at("generateName").text
    return Pod(kind=kind, name=name, namespace=metadata.at("namespace").text, node=item.at(*path))


def service_of(item: Node) -> Service | None:
    """Return what a core Service selects (Knative's Service is another thing), None for any other object."""
    if item.at("kind").text != "Service" or item.at("apiVersion").text != "v1":
        return None
    spec = item.at("spec")
    ports = spec.at("ports").items
    return Service(
        name=item.at("metadata", "name").text,
        namespace=item.at("metadata", "namespace").text,
        selector={key: value.text for key, value in spec.at("selector").values()},
        target_ports=frozenset(port.at("targetPort").text or port.at("port").text for port in ports),
        unready_too=spec.at("publishNotReadyAddresses").is_true,
    )


MAX_NEAR: Final = 30
"""Services that are looked at for one label of a pod. More than these share no label that tells them apart."""


class Services:
    """The Services of some manifests, found by what they select in a time that does not grow with their number.

    Each is kept under the label of its selector that the fewest select by: ``app: cart`` and not ``part-of: shop``.
    """

    def __init__(self, services: Iterable[Service]) -> None:
        known = tuple(services)
        uses = Counter(label for service in known for label in service.selector.items())
        self._by_label: dict[tuple[str, str], list[Service]] = {}
        for service in known:
            if service.selector:
                rarest = min(service.selector.items(), key=uses.__getitem__)
                near = self._by_label.setdefault(rarest, [])
                if len(near) < MAX_NEAR:
                    near.append(service)

    def before(self, container: Container) -> Service | None:
        """Return a Service whose traffic comes to a container, or None."""
        labels = container.pod.labels.items()
        near = (service for label in labels for service in self._by_label.get(label, ()))
        return next((service for service in near if service.reaches(container)), None)
