"""Keys of a terminal, one by one, and the terminal as it was before, whatever happens (DM-4.1)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

END_OF_INPUT: Final = "\x04"
"""Ctrl-D, which a terminal hands over as it is while it hands over each key."""
_MOST_WAITING: Final = 4096
"""What Linux keeps for a terminal that is not being read."""


class Keys:
    """The keys of standard input, where that is a terminal in whose foreground this process is; else none, ever."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._taken = False
        self._stop_asked = False
        self._before: list[Any] = []
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Have each key handed over at once and without an echo. Those that send signals go on to do so."""
        descriptor = _terminal()
        if descriptor is None:
            return self
        import termios  # noqa: PLC0415  not every system has it

        try:
            self._before = termios.tcgetattr(descriptor)
        except termios.error:
            return self
        self._descriptor = descriptor
        self._take()
        self._previous[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._note_stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the modes back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._give_back()
        self._descriptor = None

    @property
    def read(self) -> bool:
        """Whether there is a terminal whose keys are read, now or once this process is in its foreground again."""
        return self._descriptor is not None

    @property
    def stop_asked(self) -> bool:
        """Whether Ctrl-Z was pressed, or somebody has sent its signal: :meth:`suspend` does it."""
        return self._stop_asked

    def in_front(self) -> bool:
        """Say whether the terminal is this process's, as far as it has one: a shell may have taken it back."""
        try:
            return self._descriptor is None or os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:  # the terminal is gone, which the next wait tells
            return True

    def suspend(self) -> None:
        """Stop as Ctrl-Z asks, with the terminal as it was. The keys are taken again when they are waited for."""
        self._stop_asked = False
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    def wait(self, seconds: float) -> str:
        """Return the keys that were pressed, waiting for the first one for at most that long."""
        if self._descriptor is None:
            select.select([], [], [], seconds)
            return ""
        try:
            if os.tcgetpgrp(self._descriptor) != os.getpgrp():  # in the background: whoever reads is stopped
                select.select([], [], [], seconds)
                return ""
            if not self._taken:
                self._take()
            if not select.select([self._descriptor], [], [], seconds)[0]:
                return ""
            data = os.read(self._descriptor, _MOST_WAITING)
        except OSError:  # the terminal is gone
            return END_OF_INPUT
        return pressed(data)

    def _take(self) -> None:
        if self._descriptor is not None:
            import tty  # noqa: PLC0415  as termios

            with _unstopped():
                tty.setcbreak(self._descriptor)
            self._taken = True

    def _give_back(self) -> None:
        if self._descriptor is not None:
            import termios  # noqa: PLC0415  as above

            self._taken = False
            with _unstopped(), contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def _note_stop(self, _number: int, _frame: object) -> None:
        """Note it alone: what is being drawn is drawn to its end, and taken away before."""
        self._stop_asked = True


def pressed(data: bytes) -> str:
    """Return the keys of what a terminal gave, each once: one that is held down, and a paste, are heard in one turn."""
    return "".join(dict.fromkeys(data.decode("ascii", "replace"))) or END_OF_INPUT


@contextlib.contextmanager
def _unstopped() -> Iterator[None]:
    """Have no change of the terminal's modes stop this process where it is in the background by now."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, before)


def _terminal() -> int | None:
    """Return the descriptor of standard input, None where it is no terminal, or another program has it."""
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):
        return None
