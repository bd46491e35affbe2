"""Services of Nacos as releases (RT-8.1 to RT-8.3), in the form in which its servers write them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from idkmesh.addresses import url_host
from idkmesh.topology.model import Endpoint, Snapshot, Target, endpoint_of, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMES: Final = ("http", "https")

_UNREADABLE: Final = Snapshot(declared=True, unreadable=1)


@dataclass(frozen=True, slots=True)
class NacosSettings:
    """Where services are looked for. ``servers`` are (host, port), the port that of HTTP; ``clusters`` empty for all.

    The password stays out of ``repr``.
    """

    servers: tuple[tuple[str, int], ...]
    namespace: str
    group: str
    clusters: frozenset[str]
    username: str | None
    password: str | None

    def __repr__(self) -> str:
        return "NacosSettings(...)"


def service_name(target: Target) -> str:
    """Return the name of a release's service."""
    return f"{target.agent_id}:{target.agent_card_version}:{target.release_id}"


def target_of_service(info: Mapping[str, Any], group: str) -> Target | None:
    """Return the release that a service is of; None for a service of somebody else."""
    name = info.get("name")
    if not isinstance(name, str):
        return None
    of_group, mark, short = name.rpartition("@@")  # some servers put the group before the name
    if (of_group if mark else info.get("groupName")) != group:
        return None
    try:
        return Target(*short.split(":"))
    except (ValueError, TypeError):
        return None


def snapshot_of_service(info: object, clusters: frozenset[str]) -> Snapshot:
    """Return the snapshot that a service's description says.

    Where Nacos has reached the protection threshold of a service it hands out instances that are not healthy as healthy
    ones, so none of them can be told: all count as records that cannot be read (RT-8.6).
    """
    hosts = info.get("hosts") if isinstance(info, dict) else None
    if not isinstance(info, dict) or not isinstance(hosts, list):
        return _UNREADABLE
    if info.get("reachProtectionThreshold") is True:
        return Snapshot(declared=True, unreadable=max(1, len(hosts)))
    endpoints: list[Endpoint] = []
    unreadable = 0
    for host in hosts:
        try:
            endpoints += _endpoint(host, clusters)
        except (ValueError, KeyError, TypeError, AttributeError):
            unreadable += 1
    return snapshot_of(endpoints, unreadable=unreadable)


def time_of_service(info: Mapping[str, Any]) -> int:
    """Return when the server wrote a description, in its milliseconds; 0 where it does not say."""
    written = info.get("lastRefTime")
    return written if type(written) is int else 0


def _endpoint(host: Mapping[str, Any], clusters: frozenset[str]) -> list[Endpoint]:
    """Return the endpoint of an instance, none of one that is not ready. Raises for one that is no instance."""
    healthy, enabled, weight = host["healthy"], host["enabled"], host.get("weight", 1.0)
    address, port = host["ip"], host["port"]
    if type(healthy) is not bool or type(enabled) is not bool or type(port) is not int or type(address) is not str:
        raise ValueError("an instance of another form")
    if not (healthy and enabled and weight > 0) or (clusters and host.get("clusterName") not in clusters):
        return []
    scheme = (host.get("metadata") or {}).get("scheme", "http")
    if scheme not in SCHEMES:
        raise ValueError("an instance of another scheme")
    return [endpoint_of(f"{scheme}://{url_host(address)}:{port}")]
