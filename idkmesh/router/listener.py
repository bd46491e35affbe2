"""The listener of a router, alone or beside a control tower: bound, announced, told of in events (RT-9, RT-12.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from idkmesh import __version__, console
from idkmesh.addresses import url_host
from idkmesh.binding import bind, bound, ensure_free, is_open
from idkmesh.changes import Change
from idkmesh.event_recording import event_of
from idkmesh.router.server import RouterServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.events.envelope import Event
    from idkmesh.events.state import RecorderState
    from idkmesh.health.service import HealthService
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.router.service import RouterService
    from idkmesh.service_runtime import ServiceLimits

SOURCE: Final = "/router"

Made = TypeVar("Made")


def announce(server: RouterServer, configuration: RouterConfiguration) -> None:
    """Say where it answers, and warn where others can reach it."""
    name = server.server_name
    if is_open(name):
        console.complain(
            f"idkmesh: warning: the router on {name} can be reached from other machines, and tokens go over the "
            "network in the clear; put a reviewed proxy with TLS in front"
        )
    about = f"provider {configuration.provider_name} of {console.fitted(str(configuration.file))}"
    console.say(f"idkmesh router {__version__} listens on http://{url_host(name)}:{server.server_port} ({about})")


def listening(
    service: RouterService, *, health: HealthService, events: Callable[[], RecorderState], limits: ServiceLimits
) -> RouterServer:
    """Return the server of a router, bound to its address. Raises :class:`CommandError` where that cannot be."""
    address = service.configuration.listen
    options: dict[str, Any] = {"health": health, "events": events, "limits": limits}
    return _told(lambda: cast("RouterServer", bind(RouterServer, address, service, **options)), service.configuration)


def need_free(configuration: RouterConfiguration) -> None:
    """Raise :class:`CommandError` where the address of a router cannot be bound. Asked before a store is opened."""
    host, port = configuration.listen
    _told(lambda: ensure_free(host.strip("[]"), port), configuration)


def _told(make: Callable[[], Made], configuration: RouterConfiguration) -> Made:
    flag = f"listen in {console.fitted(str(configuration.file))}"
    return bound(make, configuration.listen, flag=flag, free="port 0 there")


def tell_events(server: RouterServer, emit: Callable[[Event], None]) -> None:
    """Make events of what happens to the server (RT-10.7), before it serves; ``emit`` must not wait."""

    def happened(what: str, facts: Mapping[str, Any]) -> None:
        subject = facts.get("limit") if what.startswith("overload.") else None
        emit(event_of(Change(f"idkmesh.{what}", subject, facts), SOURCE))

    server.tell(happened)
    started = {"address": server.server_name, "port": server.server_port, "version": __version__}
    happened("server.started", started)
