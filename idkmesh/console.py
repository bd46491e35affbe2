"""What every command does with the terminal: one line for a mistake, and a quiet end where nobody reads any more."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Final, TextIO

from idkmesh.service_runtime import MAX_LOGGED_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE_CLOSED: Final = 141
"""As a shell reports a program that SIGPIPE has ended."""

_CUT: Final = " ... "


class CommandError(Exception):
    """A command cannot do what it was asked: one line for the person who asked, and the exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def refusal(lines: Sequence[str]) -> CommandError:
    """Return the refusal of a file with several findings, a line each: all but the last are written now."""
    *others, last = lines
    for line in others:
        complain(f"idkmesh: {line}")
    return CommandError(last, EXIT_USAGE)


def run(command: Callable[[], int]) -> int:
    """Run a command and return its exit code, that of a ``SystemExit`` too."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name that the terminal's encoding lacks is shown escaped; it is no reason to die.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _exit_code(command)
        if sys.stdout is not None:
            code = _exit_code(_flushed(code))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        return EXIT_PIPE_CLOSED
    return code


def leave(code: int) -> None:
    """End the process now if threads are left, handlers that a drain has abandoned or a log that nobody reads.

    The interpreter's own end can meet such a thread in the middle of a write, and dies of it. Else return, and let it
    end with ``code`` even if standard error has lost its reader.
    """
    if threading.active_count() > 1:
        # Not standard error, which has no more than half a line: one who waits in there for a reader keeps its lock.
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or None
            sys.stdout.flush()
        os._exit(code)
    with contextlib.suppress(ValueError, AttributeError):
        try:
            sys.stderr.flush()
        except OSError:
            _silence(sys.stderr)


def _flushed(code: int) -> Callable[[], int]:
    """Return a command that writes out what argparse, for one, has left in the buffer, and gives the code."""

    def flush() -> int:
        with _told():
            sys.stdout.flush()
        return code

    return flush


def _exit_code(command: Callable[[], int]) -> int:
    try:
        return command()
    except CommandError as error:
        complain(f"idkmesh: {error}")
        return error.exit_code
    except SystemExit as leaving:  # argparse, after --help, --version or wrong usage
        return leaving.code if isinstance(leaving.code, int) else EXIT_FAILED


def say(line: str) -> None:
    """Print a line to standard output, at once: behind a pipe it would wait for a full buffer.

    Raises :class:`CommandError` where it cannot be written, and ``BrokenPipeError`` where nobody reads.
    """
    with _told():
        print(f"{line}\n", end="", flush=True)  # whole, for another thread's line to stand before or after it


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn an output that cannot be written, to a full disk for example, into one line."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence(sys.stdout)
        raise CommandError(f"cannot write to standard output: {reason(error)}") from None


def complain(line: str) -> None:
    """Print one line to standard error, if there is one, whatever names and texts of others stand in it."""
    if sys.stderr is not None:  # None where the descriptor was closed at start, and print() would take standard output
        print(f"{fitted(line)}\n", end="", file=sys.stderr, flush=True)


def fitted(text: str) -> str:
    """Return ``text`` as one printable line of at most :data:`MAX_LOGGED_CHARACTERS` characters.

    A longer one loses its middle: what happened stands at the start of a line, what to do at its end. What does not
    print is escaped, so that a file's name adds no line and sends the terminal no command.
    """
    if len(text) > 2 * MAX_LOGGED_CHARACTERS:  # of a request line of 64 KiB the middle is not worth the work
        text = text[:MAX_LOGGED_CHARACTERS] + text[-MAX_LOGGED_CHARACTERS:]
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    if len(shown) <= MAX_LOGGED_CHARACTERS:
        return shown
    kept = (MAX_LOGGED_CHARACTERS - len(_CUT)) // 2
    return shown[:kept] + _CUT + shown[-kept:]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines, with columns as wide as what stands in them. Wants one row at least."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def reason(error: BaseException) -> str:
    """Return an exception as part of a line: the system's words for an OSError, else its type and text."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _silence(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: the interpreter flushes once more at its end, and would complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)
