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


def backend_health(get: Callable[[str], object]) -> tuple[dict[tuple[str, int], bool], int]:
    """Return what is reported, by address and port of the backend: any balancer that reaches it counts.

    With it comes how many balancers were not asked: those beyond :data:`MAX_BALANCERS`, and those whose name, or
    whose network's, fits in no request; such a network counts as one. ``get`` returns what the daemon answers to
    a path, and may raise.
    """
    server = get("/1.0")
    extensions = server.get("api_extensions") if isinstance(server, dict) else None
    if not isinstance(extensions, list) or EXTENSION not in extensions:
        return {}, 0
    found: dict[tuple[str, int], bool] = {}
    networks = list(_ovn_networks(get("/1.0/networks?recursion=1")))
    listed = [path for network in networks if network for path in _balancers(get, network)]
    asked = [path for path in listed if path][:MAX_BALANCERS]
    for path in asked:
        for place, reached in _reported(get(f"{path}/state")):
            found[place] = found.get(place, False) or reached
    return found, len(listed) - len(asked) + networks.count("")


def _ovn_networks(listing: object) -> Iterator[str]:
    for network in listing if isinstance(listing, list) else []:
        if isinstance(network, dict) and network.get("type") == "ovn":
            yield _under("/1.0/networks", network.get("name"), "/load-balancers")


def _balancers(get: Callable[[str], object], path: str) -> Iterator[str]:
    listing = get(f"{path}?recursion=1")
    for balancer in listing if isinstance(listing, list) else []:
        if isinstance(balancer, dict):
            yield _under(path, balancer.get("listen_address"))


def _under(path: str, name: object, rest: str = "") -> str:
    """Return the path of what has this name, nothing where it cannot stand in one."""
    good = isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()
    return f"{path}/{quote(str(name), safe='')}{rest}" if good else ""


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
