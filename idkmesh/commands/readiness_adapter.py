"""``idkmesh readiness-adapter``: three paths over HTTP for a node that is known through its command (RA-7 to RA-9)."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh import __version__, console
from idkmesh.adapter import node_get
from idkmesh.adapter.looks import LAST_SECONDS, Looks
from idkmesh.adapter.sampling import Phase, Sampler
from idkmesh.adapter.verdict import Verdict, verdict
from idkmesh.adapter.words import not_begun_line, verdict_line
from idkmesh.child_process import hear_signals
from idkmesh.commands.inputs import chosen, whole
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.settings import ADAPTER
from idkmesh.settings_in_force import slips

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from idkmesh.adapter.log import PromptLog
    from idkmesh.adapter.server import AdapterServer
    from idkmesh.commands.inputs import Flags

EXIT_UNKNOWN: Final = 3

LEFT_BEHIND: Final = "the node's command cannot be ended: it is left behind"

JOIN_SECONDS: Final = LAST_SECONDS + 0.2
"""How long the sampling thread may take to end, from when it is asked to: its child's end, and a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is in force. ``argv`` is empty where the node is a control tower, which needs a client file.

    ``warnings`` are lines that are to be told at the start.
    """

    node_id: str
    client_file: str | None
    listen: tuple[str, int]
    argv: Sequence[str]
    warnings: Sequence[str] = ()


def request_of(flags: Flags, argv: Sequence[str]) -> Request:
    """Return what is in force. Raises :class:`CommandError` for settings that are refused (exit code 2).

    Its log makes nobody wait, so it tells of slips itself (RA-9.1).
    """
    given = whole(chosen(ADAPTER, flags))
    return Request(
        node_id=given["node_id"],
        client_file=given["client_file"],
        listen=given["listen"],
        argv=tuple(argv),
        warnings=tuple(f"idkmesh: {line}" for line in slips(os.environ, ADAPTER)),
    )


def check(request: Request) -> int:
    """Look once, print a line, and return the exit code (RA-9.3)."""
    for line in request.warnings:
        console.complain(line)
    argv = _checked(request, None)
    sampler = Sampler(request.node_id)

    def turned(_: float) -> None:
        if sampler.phase is Phase.ENDING:  # it has failed, and its child is waited for no longer than at any other end
            looks.stop()

    with _descriptors_for_looks(EXIT_UNKNOWN):
        looks = Looks(argv, sampler, turned, client_file=_judged_here(request))
    with contextlib.closing(looks), _stopped_by_signals(looks) as signals:
        hear_signals()
        looks.run(1)
    if looks.left_behind:
        console.complain(f"idkmesh: {LEFT_BEHIND}")
    if signals:
        raise SystemExit(128 + signals[0])
    if sampler.not_begun is not None:
        raise CommandError(f"could not tell: {not_begun_line(argv, sampler.not_begun)}", EXIT_UNKNOWN)
    told = verdict(sampler.held, request.node_id, time.monotonic())
    console.say(verdict_line(told, sampler.held, request.node_id))
    return 0 if told.ready else EXIT_FAILED


def serve(request: Request) -> int:
    """Answer until a signal, and return the exit code (RA-9.2)."""
    from idkmesh.httpd.signals import ShutdownSignals

    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(ShutdownSignals(second_ends=False))  # an early one must not be lost
        hear_signals()
        from idkmesh.adapter.log import PromptLog
        from idkmesh.adapter.server import AdapterServer
        from idkmesh.binding import bound
        from idkmesh.commands.until_signal import served

        # Not by the console, which waits for whoever reads: a supervisor whose pipe is full would have no adapter.
        output, log = (PromptLog(None if file is None else file.fileno()) for file in (sys.stdout, sys.stderr))
        for line in request.warnings:
            log.write(line)
        address, argv = request.listen, _checked(request, log)
        with _descriptors_for_looks(EXIT_FAILED):
            sampling = Sampling(request, argv, log)
        stack.callback(sampling.close)
        server = bound(lambda: AdapterServer(address, sampling.verdict, log), address, flag="--listen", free="port 0")
        stack.callback(server.server_close)  # where the rest cannot be had
        stack.enter_context(sampling.running(server))
        line = (
            f"idkmesh readiness-adapter {__version__} answers for node {request.node_id} on http://{server.authority}/"
        )
        output.write(line)
        if output.lost:
            log.write(line)
        code = served(server, signals)
    return EXIT_FAILED if sampling.failed else code


class Sampling:
    """The thread that looks at the node, and what it has seen."""

    def __init__(self, request: Request, argv: Sequence[str], log: PromptLog) -> None:
        self._node_id = request.node_id
        self._argv = argv
        self._log = log
        self._sampler = Sampler(request.node_id)
        self._looks = Looks(argv, self._sampler, self._tell, client_file=_judged_here(request))
        self._told: str | None = None
        self._told_not_begun: str | None = None
        self._thread: threading.Thread | None = None
        self._join_by = math.inf
        self.failed = False

    def verdict(self) -> Verdict:
        """Return what holds now. Any thread may call it."""
        return verdict(self._sampler.held, self._node_id, time.monotonic())

    @contextlib.contextmanager
    def running(self, server: AdapterServer) -> Iterator[None]:
        """Look for a while. Where the looking fails, ``server`` ends."""
        # As soon as the server is asked to end, so that both end together.
        server.tell(lambda what, _: self._stop() if what == "drain.started" else None)
        thread = self._thread = threading.Thread(target=self._run, args=(server,), name="sampling", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise CommandError("cannot look at the node: the system starts no more threads") from None
        try:
            yield
        finally:
            self._stop()
            thread.join(max(0.0, self._join_by - time.monotonic()))
            if thread.is_alive() or self._looks.left_behind:
                self._log.write(LEFT_BEHIND, logging.WARNING)

    def close(self) -> None:
        """Close what the thread was woken by, unless it is still there."""
        if self._thread is None or not self._thread.is_alive():
            self._looks.close()

    def _stop(self) -> None:
        """Ask the thread to end. Its time counts from the first time: a drain and it are not waited for one by one."""
        self._join_by = min(self._join_by, time.monotonic() + JOIN_SECONDS)
        self._looks.stop()

    def _run(self, server: AdapterServer) -> None:
        try:
            self._looks.run()
        except BaseException as error:  # noqa: BLE001  whatever it is, nobody looks at the node any more
            self.failed = True
            self._log.write(f"looking at the node has failed: {console.reason(error)}", logging.ERROR)
            server.request_drain(signal.SIGTERM)

    def _tell(self, now: float) -> None:
        """Log what has changed (RA-7.5)."""
        sampler = self._sampler
        if sampler.not_begun != self._told_not_begun:
            self._told_not_begun = sampler.not_begun
            if sampler.not_begun is None:
                self._log.write("the node's command can be started again")
            else:
                seen = sampler.held.observation is not None
                until = "what was seen last holds until it is too old" if seen else "every answer is no until it can be"
                self._log.write(f"{not_begun_line(self._argv, sampler.not_begun)}; {until}", logging.WARNING)
        if not sampler.complete:
            return
        held = sampler.held
        line = verdict_line(verdict(held, self._node_id, now), held, self._node_id)
        if line != self._told:
            self._told = line
            self._log.write(line)


def _checked(request: Request, waiting: PromptLog | None) -> Sequence[str]:
    """Return the command to run. Raises :class:`CommandError` for a bad client file (exit code 2).

    ``waiting`` is told of a client file that is not there yet; where it is None the file must be there.
    """
    file = request.client_file
    if file is None:
        if not request.argv:
            raise CommandError("--client-file is needed where no command follows --", EXIT_USAGE)
        return request.argv
    try:
        node_get.read_client_file(file)
    except node_get.NodeGetError as error:
        # A node that has not started has not written it yet. By the one look: a node may write it, or remove it, now.
        if waiting is None or not isinstance(error, node_get.NoClientFileError):
            raise CommandError(str(error), EXIT_USAGE) from None
        waiting.write(f"idkmesh: the client file {file} is not there yet: every answer is no until it is")
    own = (sys.executable, "-I", "-S", node_get.__file__, "--client-file", os.path.abspath(file))  # noqa: PTH100  it is a symbolic link that a mounted secret changes
    return request.argv or own


def _judged_here(request: Request) -> str | None:
    """Return the client file that is to be judged before each look (RA-7.1). Our own command judges it itself."""
    return os.path.abspath(request.client_file) if request.argv and request.client_file is not None else None  # noqa: PTH100  as above


@contextlib.contextmanager
def _descriptors_for_looks(exit_code: int) -> Iterator[None]:
    """Turn what the system does not give to a beginning into one line."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot look at the node: {console.reason(error)}", exit_code) from None


@contextlib.contextmanager
def _stopped_by_signals(looks: Looks) -> Iterator[list[int]]:
    """Let SIGTERM and SIGINT end a look in order, and give those that came.

    Not by an exception: one that is raised between the start of a child and the note of it would lose the child.
    """
    came: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        looks.stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
