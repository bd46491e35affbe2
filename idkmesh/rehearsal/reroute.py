"""Leads a service to proxies of its dependencies: addresses, variables, a copy of the matrix (HL-8.1). Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import yaml

from idkmesh.health.model import Http, Tcp
from idkmesh.rehearsal.faults import FaultError, can_be_failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.health.model import ProbeMatrix

PREFIX: Final = "IDKMESH_DEP_"
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a dependency really is."""

    name: str
    host: str
    port: int


def upstreams(matrix: ProbeMatrix) -> tuple[Upstream, ...]:
    """Return the dependencies that get a proxy. Raises :class:`FaultError` where two would share a variable."""
    found: list[Upstream] = []
    taken: dict[str, str] = {}
    for dependency in matrix.dependencies:
        if not can_be_failed(dependency):
            continue
        name = variable(dependency.name)
        if name in taken:
            raise FaultError(f"{taken[name]} and {dependency.name} would both be {name}: rename one of them")
        taken[name] = dependency.name
        if isinstance(dependency.probe, Tcp):
            found.append(Upstream(dependency.name, dependency.probe.host, dependency.probe.port))
        elif isinstance(dependency.probe, Http):
            url = urlsplit(dependency.probe.url)
            found.append(Upstream(dependency.name, url.hostname or "", url.port or 80))
    return tuple(found)


def variable(name: str) -> str:
    """Return the variable of a dependency: ``orders-db`` is in ``IDKMESH_DEP_ORDERS_DB``."""
    return PREFIX + name.upper().replace("-", "_").replace(".", "_")


def variables(ports: Mapping[str, int]) -> dict[str, str]:
    """Return the variables that tell a service where its dependencies are, ``127.0.0.1:PORT`` each."""
    return {variable(name): f"{LOOPBACK}:{port}" for name, port in ports.items()}


def rerouted_matrix(text: str, ports: Mapping[str, int]) -> str:
    """Return a matrix, one that its loader has taken, with its probes led to the proxies at ``ports``.

    It is written as JSON, which is YAML: every text in quotes, so none is read as something else.
    """
    matrix: dict[str, Any] = yaml.safe_load(text)
    for row in matrix["dependencies"]:
        port = ports.get(row["name"])
        if port is None:
            continue
        if "tcp" in row["probe"]:
            row["probe"]["tcp"].update(host=LOOPBACK, port=port)
        else:
            _reroute_http(row["probe"]["http"], port)
    return json.dumps(matrix, indent=2, ensure_ascii=False) + "\n"


def _reroute_http(probe: dict[str, Any], port: int) -> None:
    url = urlsplit(probe["url"])
    probe["url"] = urlunsplit(url._replace(netloc=f"{LOOPBACK}:{port}"))
    headers = probe.setdefault("headers", {})
    # A server of several names must see the one that it is asked for.
    if "host" not in {name.lower() for name in (*headers, *probe.get("headers_from_env", {}))}:
        headers["Host"] = url.netloc
