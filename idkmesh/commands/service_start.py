"""How a command that serves starts: signals first, then its settings, and then the import of what serves.

What serves takes a while to import, and an early signal must not be lost (CT-9.4). So nothing slow is imported here,
and a command imports its own module within :func:`begun`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from idkmesh.commands.inputs import settings_of, whole
from idkmesh.console import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.commands.inputs import Flags
    from idkmesh.commands.reload_signal import ReloadSignal
    from idkmesh.httpd.signals import ShutdownSignals
    from idkmesh.settings_in_force import InForce

_READ_AGAIN: Final = ("matrix", "modules", "router")
"""The settings that name a file which SIGHUP has read again."""


class Start(NamedTuple):
    """What a command that serves has when what serves is imported. ``reloads`` is None where there is no file."""

    given: InForce
    signals: ShutdownSignals
    reloads: ReloadSignal | None

    def on_reload(self, reload: Callable[[], object]) -> None:
        """Call ``reload`` on each SIGHUP, one that has come already included. Without a file it keeps its meaning."""
        if self.reloads is not None:
            self.reloads.attach(reload)


@contextlib.contextmanager
def begun(command: str, flags: Flags) -> Iterator[Start]:
    """Catch the signals and judge the settings, then have the rest imported and served within this.

    Raises :class:`CommandError` for settings that are refused (exit code 2), and where a package is missing (RT-9.9).
    """
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals())
        given = whole(settings_of(command, flags))
        reads_files = any(name in given.values and given[name] is not None for name in _READ_AGAIN)
        reloads = stack.enter_context(_reload_signal()) if reads_files else None
        try:
            yield Start(given, signals, reloads)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "httpcore":
                raise
            raise CommandError("a router needs the package httpcore: pip install 'idkmesh[router]'") from None


def _reload_signal() -> ReloadSignal:
    from idkmesh.commands.reload_signal import ReloadSignal

    return ReloadSignal()
