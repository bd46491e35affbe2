"""Inspects texts: finds out what each is, and runs every rule that fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.inspection import (
    rules_compose,
    rules_end,
    rules_files,
    rules_form,
    rules_liveness,
    rules_matrix,
    rules_shape,
    rules_timing,
)
from idkmesh.inspection.compose import is_compose, project_of
from idkmesh.inspection.documents import read_documents
from idkmesh.inspection.findings import Finding, Met, Place, Rule, found
from idkmesh.inspection.manifests import Services, is_manifest, objects, pod_of, service_of
from idkmesh.inspection.matrix import KIND, MatrixRefused, read_matrix
from idkmesh.inspection.rules_commands import COMMAND_CHECKS, ProbeCommand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from idkmesh.health.model import ProbeMatrix
    from idkmesh.inspection.compose import ComposeService, Project
    from idkmesh.inspection.documents import Node, Reading
    from idkmesh.inspection.kubernetes import Container, Pod

BAD_FILE: Final = frozenset({rules_files.UNREADABLE.id})
"""A finding of these says that a file was not read to its end."""

NO_ANSWER: Final = frozenset({rules_files.TEMPLATE.id, rules_files.UNKNOWN.id})
"""A finding of these says that nothing could be told of a file."""


_OF_CONTAINERS: Final = (
    *rules_liveness.CONTAINER_CHECKS,
    *rules_timing.CONTAINER_CHECKS,
    *rules_end.CONTAINER_CHECKS,
    *rules_form.CONTAINER_CHECKS,
)
"""What needs to know of nothing but the container."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name it goes by."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Beside:
    """A matrix that manifests are held against, and the stores that it knows."""

    matrix: ProbeMatrix
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Read:
    source: Source
    reading: Reading


def inspect_text(text: str, name: str, matrix: ProbeMatrix | None = None) -> list[Finding]:
    """Return what the rules find in one text. Raises nothing, whatever the text is.

    ``matrix`` is held against the manifest: the stores that it uses, and the figures of its probes.
    """
    return inspect_sources([Source(name, text)], matrix)


def inspect_bytes(data: bytes, name: str) -> list[Finding]:
    """Return what the rules find in the bytes of a text. Raises nothing: what is not UTF-8 is a finding."""
    try:
        return inspect_text(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        place = Place(data.count(b"\n", 0, error.start) + 1, len(data[begin : error.start].decode()) + 1)
        return [found(rules_files.UNREADABLE, name, "file", Met(place, "It is not UTF-8.", "Save it as UTF-8."))]


def inspect_sources(sources: Sequence[Source], matrix: ProbeMatrix | None = None) -> list[Finding]:
    """Return the findings in several texts, which belong together: a Service in one selects the pods of another."""
    beside = Beside(matrix, rules_matrix.known_stores(matrix)) if matrix is not None else None
    read = [_Read(source, read_documents(source.text)) for source in sources]
    services = Services(
        service
        for each in read
        for item in objects(each.reading.documents)
        if (service := service_of(item)) is not None
    )
    findings: list[Finding] = []
    for each in read:
        ours = _inspected(each, services, beside)
        findings += sorted(ours, key=lambda finding: (finding.place, finding.rule.id))
    return findings


def _inspected(read: _Read, services: Services, beside: Beside | None) -> Iterator[Finding]:
    name, reading = read.source.name, read.reading
    matrix = next((document for document in reading.documents if document.at("kind").text == KIND), None)
    yield from _of_file(read, is_matrix=matrix is not None)
    if matrix is not None:  # its loader reads the whole text, and refuses one that has more documents
        yield from _of_matrix(read, matrix)
    known = matrix is not None
    for document in reading.documents:
        if is_manifest(document):
            known = True
            for item in objects([document]):
                pod = pod_of(item)
                yield from _of_pod(pod, services, beside, name) if pod is not None else ()
        elif is_compose(document):
            known = True
            project = project_of(document)
            for service in project:
                yield from _of_service(service, project, beside, name)
    if not known and reading.error is None:
        told = "It has no documents." if not reading.documents else "Nothing in it is known."
        yield found(rules_files.UNKNOWN, name, "file", Met(Place(1, 1), told))


def _of_file(read: _Read, *, is_matrix: bool) -> Iterator[Finding]:
    name, reading = read.source.name, read.reading
    if reading.error is not None:
        rule = rules_files.TEMPLATE if reading.error.template else rules_files.UNREADABLE
        told = str(reading.error)
        yield found(rule, name, "file", Met(reading.error.place, f"{told[:1].upper()}{told[1:]}."))
    for key in () if is_matrix else reading.repeated:  # the matrix's loader tells of them
        yield found(rules_files.REPEATED_KEY, name, "file", Met(key.place, f"{key.text[:60]} stood before."))


def _of_pod(pod: Pod, services: Services, beside: Beside | None, file: str) -> Iterator[Finding]:
    for container in (*pod.init_containers, *pod.containers):
        told: list[tuple[Rule, Iterable[Met]]] = []
        if not container.init:
            told += [(rule, check(container)) for rule, check in _OF_CONTAINERS]
            told += _of_commands(_container_commands(container))
        told += [(rule, check(container, services)) for rule, check in rules_shape.CONTAINER_CHECKS]
        if beside is not None and not container.init:
            told += [
                (rules_matrix.OTHER_FIGURES, rules_matrix.other_figures(each, beside.matrix))
                for each in container.probes
            ]
            uses = ((f"{name.text} {value}", value, name.place) for name, value in container.variables)
            told.append((rules_matrix.NOT_IN_MATRIX, _lacking(uses, beside.known)))
        yield from (found(rule, file, container.object, met) for rule, all_met in told for met in all_met)


def _of_service(service: ComposeService, project: Project, beside: Beside | None, file: str) -> Iterator[Finding]:
    told: list[tuple[Rule, Iterable[Met]]] = [
        (rule, check(service, project)) for rule, check in rules_compose.SERVICE_CHECKS
    ]
    check = service.check
    if check is not None and check.command is not None and not check.disabled:
        place, timeout_place = check.where("test"), check.where("timeout")
        command = ProbeCommand(
            command=check.command,
            place=place,
            timeout=check.timeout,
            timeout_place=timeout_place,
            by_kubelet=False,
            dollars=check.dollars,
        )
        told += _of_commands([command])
    if beside is not None and service.store is None:
        uses = [(f"{name} {value}", value, place) for name, value, place in service.variables]
        others = ((project.services[name], place) for name, _, place in service.depends_on if name in project.services)
        uses += [(other.image, other.name, place) for other, place in others if other.store is not None]
        told.append((rules_matrix.NOT_IN_MATRIX, _lacking(uses, beside.known)))
    yield from (found(rule, file, service.object, met) for rule, all_met in told for met in all_met)


def _of_matrix(read: _Read, document: Node) -> Iterator[Finding]:
    name = read.source.name
    try:
        placed = read_matrix(read.source.text, name, document)
    except MatrixRefused as refused:
        for place, what, mend in refused.told:
            yield found(rules_matrix.REFUSED, name, "matrix", Met(place, what, mend))
        return
    for rule, check in rules_matrix.MATRIX_CHECKS:
        yield from (found(rule, name, "matrix", met) for met in check(placed))
    for dependency, command in rules_matrix.probe_commands(placed):
        for rule, all_met in _of_commands([command]):
            yield from (found(rule, name, f"matrix, dependency {dependency}", met) for met in all_met)


def _container_commands(container: Container) -> Iterator[ProbeCommand]:
    for probe in container.probes:
        if probe.command is not None:
            yield ProbeCommand(
                command=probe.command,
                place=probe.where("exec", "command"),
                timeout=probe.timeout,
                timeout_place=probe.where("timeoutSeconds"),
                by_kubelet=True,
                dollars=probe.command.argv,
            )


def _of_commands(commands: Iterable[ProbeCommand]) -> list[tuple[Rule, Iterable[Met]]]:
    return [(rule, check(command)) for command in commands for rule, check in COMMAND_CHECKS]


def _lacking(uses: Iterable[tuple[str, str, Place]], known: frozenset[str]) -> Iterator[Met]:
    """Give each store, once a container, that its variables or what it waits for speak of and the matrix does not."""
    seen: set[str] = set()
    for text, value, place in uses:
        store = rules_matrix.lacking_store(f"{value}/{text.replace(' ', '/')}"[:2000], known)
        if store is not None and store not in seen:
            seen.add(store)
            yield Met(place, f"{text.partition(' ')[0][:60]} speaks of {store}.")
