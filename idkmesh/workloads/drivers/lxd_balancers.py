"""What OVN's load balancers say of their backends, where the platform reports it (AR-3.5): Incus does, LXD does not.

``GET /1.0/networks/NAME/load-balancers/ADDRESS/state`` as Incus documents it, under the extension of its interface of
the same name. No real one was at hand: section 10 of the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXTENSION: Final = "network_load_balancer_state"
MAX_BALANCERS: Final = 200
"""That are asked in one pass; each is a request."""

MAX_NAME_CHARACTERS: Final = 256
"""Of a name that is part of a request."""

_WORDS: Final = {"online": True, "offline": False, "error": False}


def backend_health(get: Callable[[str], object]) -> dict[tuple[str, int], bool]:
    """Return what is reported, by address and port of the backend: any balancer that reaches it counts.

    ``get`` returns what the daemon answers to a path, and may raise.
    """
    server = get("/1.0")
    extensions = server.get("api_extensions") if isinstance(server, dict) else None
    if not isinstance(extensions, list) or EXTENSION not in extensions:
        return {}
    found: dict[tuple[str, int], bool] = {}
    paths = [path for network in _ovn_networks(get("/1.0/networks?recursion=1")) for path in _balancers(get, network)]
    for path in paths[:MAX_BALANCERS]:
        for place, reached in _reported(get(f"{path}/state")):
            found[place] = found.get(place, False) or reached
    return found


def _ovn_networks(listing: object) -> Iterator[str]:
    for network in listing if isinstance(listing, list) else []:
        if isinstance(network, dict) and network.get("type") == "ovn" and (name := _part(network.get("name"))):
            yield f"/1.0/networks/{name}/load-balancers"


def _balancers(get: Callable[[str], object], path: str) -> Iterator[str]:
    listing = get(f"{path}?recursion=1")
    for balancer in listing if isinstance(listing, list) else []:
        if isinstance(balancer, dict) and (address := _part(balancer.get("listen_address"))):
            yield f"{path}/{address}"


def _part(name: object) -> str:
    """Return a name as it stands in a path, nothing where it cannot."""
    good = isinstance(name, str) and len(name) <= MAX_NAME_CHARACTERS and name.isprintable()
    return quote(str(name), safe="") if good else ""


def _reported(state: object) -> Iterator[tuple[tuple[str, int], bool]]:
    health = state.get("backend_health") if isinstance(state, dict) else None
    for backend in health.values() if isinstance(health, dict) else []:
        if not isinstance(backend, dict) or not isinstance(address := backend.get("address"), str):
            continue
        ports = backend.get("ports")
        for each in ports if isinstance(ports, list) else []:
            port, status = (each.get("port"), each.get("status")) if isinstance(each, dict) else (None, None)
            if type(port) is int and isinstance(status, str) and status in _WORDS:
                yield (address, port), _WORDS[status]
