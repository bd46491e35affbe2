"""Calls of a store that may hang in the system, where nothing can interrupt them: a file on a disk that stalls.

Laws of this module:

1. A call has a daemon thread of its own, so that its caller is free at the deadline, and the process at its end.
2. While a late call is out no other one is begun: what hangs gathers no threads, and nothing is written after it that
   was decided later.
3. What a late call returns or raises is dropped. It may have come about.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class LateError(Exception):
    """A call has not come back in its time, or was not begun: an earlier one is out, or the machine is full."""


class InTime:
    """Calls that have ``seconds`` each. ``name`` is the name of their threads. Any thread may call :meth:`call`."""

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._late: list[threading.Thread] = []

    def call(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns, or raise what it raises, or :class:`LateError`."""
        self._late = [thread for thread in self._late if thread.is_alive()]
        if self._late:
            raise LateError("an earlier call has not come back")
        call = _Call(function)
        thread = threading.Thread(target=call, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # that is how Python says it
            raise LateError("the machine is out of threads") from None
        thread.join(self._seconds)
        if thread.is_alive():
            self._late.append(thread)
            raise LateError(f"it has not come back within {self._seconds:g} s")
        return call.result()


class _Call(Generic[T]):
    """One call and what came of it."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # noqa: BLE001  its answer, not the thread's end
            self._error = error

    def result(self) -> T:
        """Return or raise it, once. An error is let go: its traceback leads back here."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._values[0]
        finally:
            del error
