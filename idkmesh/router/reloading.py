"""Reads a router's configuration again: its credentials are taken, and nothing else (RT-9.11)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from idkmesh.router.configuration import ConfigurationError, read_configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.router.configuration import RouterConfiguration

_AT_THE_START: Final = ("listen", "provider", "observe", "max_observations")
"""What a router is made of: another value of these takes a restart."""


def reload_credentials(running: RouterConfiguration, line: Callable[[str, int], None]) -> bool:
    """Read the file of a configuration again and take its credentials, or say in one line why the running ones stay.

    Reads files: not for a front.
    """
    try:
        found = read_configuration(running.file, again=True)
    except ConfigurationError as error:
        line(f"the router's configuration is refused, the running credentials stay: {error}", logging.ERROR)
        return False
    except Exception as error:  # noqa: BLE001  a fault of ours must not end who reloads, nor show what it has read
        kind = type(error).__name__
        line(f"the router's configuration was not taken, the running credentials stay: {kind}", logging.ERROR)
        return False
    before, after = set(running.credentials.ids), set(found.credentials.ids)
    renewed = running.credentials.with_another_token(found.credentials)
    running.credentials.take(found.credentials)
    kept, added, removed = len(before & after) - renewed, len(after - before), len(before - after)
    told = f"{kept} kept, {renewed} with another token, {added} added, {removed} removed"
    line(f"the router's credentials were read again: {told}", logging.INFO)
    others = [name for name in _AT_THE_START if getattr(found, name) != getattr(running, name)]
    if others:
        line(f"the router's configuration has another {', '.join(others)}, which takes a restart", logging.WARNING)
    return True
