"""Makes the provider and the selector that a configuration names. What only one of them needs is imported with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idkmesh.router.configuration import DirectSpec, EtcdSpec, FileSpec
from idkmesh.topology.providers.direct import DirectProvider
from idkmesh.topology.providers.file import FileProvider
from idkmesh.topology.providers.file_reading import content_of
from idkmesh.topology.providers.file_state import Fault
from idkmesh.topology.providers.packages import MissingPackageError, need
from idkmesh.topology.providers.releases import read_releases
from idkmesh.topology.selector import WatchSelector
from idkmesh.topology.snapshot_selector import SnapshotSelector

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.clock import Clock
    from idkmesh.router.configuration import NacosSpec, RouterConfiguration
    from idkmesh.topology.provider import Provider
    from idkmesh.topology.providers.crossings import Changed

    Line = Callable[[str, int], None]
    Selector = WatchSelector | SnapshotSelector


class PartError(ValueError):
    """A part of a router cannot be had: one line, with what to do."""


def provider_of(configuration: RouterConfiguration, changed: Changed, line: Line) -> Provider:
    """Return the provider, which works from here on, and tells its crossings. Raises :class:`PartError`."""
    spec = configuration.provider
    if isinstance(spec, FileSpec):
        return FileProvider(spec.path, line=line, changed=changed, observe=configuration.observe)
    if isinstance(spec, DirectSpec):
        return DirectProvider(spec.releases)
    try:
        return _registry_of(spec, configuration.observe, changed, line)
    except (MissingPackageError, ValueError) as error:
        raise PartError(str(error)) from None


def _registry_of(
    spec: EtcdSpec | NacosSpec,
    observe: bool,  # noqa: FBT001  of the configuration
    changed: Changed,
    line: Line,
) -> Provider:
    if isinstance(spec, EtcdSpec):
        from idkmesh.topology.providers.etcd import EtcdProvider  # noqa: PLC0415  its package is an extra

        return EtcdProvider(spec.endpoints, spec.prefix, line=line, changed=changed, observe=observe)
    from idkmesh.topology.providers.nacos import NacosProvider  # noqa: PLC0415  its package is an extra, and heavy

    return NacosProvider(
        spec.servers,
        line=line,
        changed=changed,
        namespace=spec.namespace,
        group=spec.group,
        clusters=spec.clusters,
        username=spec.username,
        password=spec.password,
        observe=observe,
    )


def lacking(configuration: RouterConfiguration) -> str | None:
    """Return, in one line, what the provider of a configuration needs and does not find here; nobody is asked."""
    spec = configuration.provider
    try:
        if isinstance(spec, FileSpec):
            content = content_of(spec.path)
            if isinstance(content, Fault):
                return f"{spec.path}: {content.reason}"
            read_releases(content)
        elif not isinstance(spec, DirectSpec):
            need(configuration.provider_name)
    except MissingPackageError as error:
        return str(error)
    except ValueError as error:
        return f"{spec.path}: {error}" if isinstance(spec, FileSpec) else str(error)
    return None


def selector_of(
    configuration: RouterConfiguration, provider: Provider, clock: Clock, changed: Changed, line: Line
) -> Selector:
    """Return who selects: from watches where there are any, else from a snapshot each time."""
    if not provider.continuous:
        return SnapshotSelector(provider, line=line)
    return WatchSelector(
        provider, clock=clock, changed=changed, line=line, max_observations=configuration.max_observations
    )
