"""What every command does with the terminal: one line for a mistake, and a quiet end where nobody reads any more."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE_CLOSED: Final = 141
"""As a shell reports a program that SIGPIPE has ended."""


class CommandError(Exception):
    """A command cannot do what it was asked: one line for the person who asked, and the exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run(command: Callable[[], int]) -> int:
    """Run a command and return its exit code, that of a ``SystemExit`` too."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name that the terminal's encoding lacks is shown escaped; it is no reason to die.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _exit_code(command)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        return EXIT_PIPE_CLOSED
    return code


def leave(code: int) -> None:
    """End the process now if threads are left, handlers that a drain has abandoned; else return.

    The interpreter's own end can meet such a thread in the middle of a write, and dies of it.
    """
    if threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or None
                stream.flush()
        os._exit(code)


def _exit_code(command: Callable[[], int]) -> int:
    try:
        return command()
    except CommandError as error:
        complain(f"idkmesh: {error}")
        return error.exit_code
    except SystemExit as leaving:  # argparse, after --help, --version or wrong usage
        return leaving.code if isinstance(leaving.code, int) else EXIT_FAILED


def say(line: str) -> None:
    """Print a line to standard output, at once: behind a pipe it would wait for a full buffer."""
    print(line, flush=True)


def complain(line: str) -> None:
    """Print a line to standard error, if there is one."""
    if sys.stderr is not None:  # None where the descriptor was closed at start, and print() would take standard output
        print(line, file=sys.stderr, flush=True)


def reason(error: Exception) -> str:
    """Return an exception as part of a line: the system's words for an OSError, else its type and text."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _silence(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: the interpreter flushes once more at its end, and would complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)
