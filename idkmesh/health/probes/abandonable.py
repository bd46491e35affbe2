"""Calls that nothing can interrupt: a resolver, a hanging file system, somebody's Python code (HL-4.11).

Laws of this module:

1. A call has a daemon thread of its own, so that its caller is free at the deadline, and the process at its end.
2. At most one thread of an :class:`Abandonable` exists: while an earlier call is out, no other is started.
3. What an abandoned call returns or raises later is dropped.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.health.probes.probe import Deadline

T = TypeVar("T")


class _Call(Generic[T]):
    """One call and what came of it: a value, or the error that it raised."""

    __slots__ = ("_error", "_function", "_result")

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._result: list[T] = []
        self._error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._result.append(self._function())
        except BaseException as error:  # noqa: BLE001  sys.exit() of a callable is its answer, not the thread's end
            self._error = error

    def result(self) -> T:
        """Return or raise it, once. An error is let go: its traceback leads back here, and would keep all of it."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._result[0]
        finally:
            del error


class Abandonable:
    """Calls of one probe, one at a time. ``name`` is the name of their threads. One thread calls the methods."""

    __slots__ = ("_name", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def out(self) -> bool:
        """Whether a call has not come back yet."""
        return self._thread is not None and self._thread.is_alive()

    def call(self, function: Callable[[], T], deadline: Deadline) -> T:
        """Return what ``function`` returns, or raise what it raises, or what the run says without it.

        That is ``failed``, "timeout", for a call that is abandoned. It is ``could_not_run`` for one that is not made
        because an earlier one is out: the dependency was failing by then, and nothing more is learnt of it.
        """
        if self.out:
            raise could_not_run("still waiting")
        call = _Call(function)
        thread = threading.Thread(target=call, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # that is how Python says it
            raise could_not_run("the machine is out of threads") from None
        self._thread = thread
        thread.join(deadline.left())
        if thread.is_alive():
            raise failed("timeout")
        self._thread = None
        return call.result()
