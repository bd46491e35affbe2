"""Calls that nothing can interrupt: a resolver, a file on a disk that stalls, somebody's Python code.

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
    """A call has not come back in its time. Its subclasses say that it was not begun."""


class StillOutError(LateError):
    """An earlier call has not come back."""


class NoThreadError(LateError):
    """The machine is out of threads."""


class TimeLimiter:
    """Calls with a time each. ``name`` is the name of their threads. Any thread may call any method."""

    __slots__ = ("_late", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._late: list[threading.Thread] = []

    @property
    def out(self) -> bool:
        """Whether a late call has not come back yet."""
        return any(thread.is_alive() for thread in self._late)

    def call(self, function: Callable[[], T], seconds: float) -> T:
        """Return what ``function`` returns, or raise what it raises, or :class:`LateError`."""
        self._late = [thread for thread in self._late if thread.is_alive()]
        if self._late:
            raise StillOutError("an earlier call has not come back")
        call = _Call(function)
        thread = threading.Thread(target=call, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # that is how Python says it
            raise NoThreadError("the machine is out of threads") from None
        thread.join(seconds)
        if thread.is_alive():
            self._late.append(thread)
            raise LateError(f"it has not come back within {seconds:g} s")
        return call.result()


class _Call(Generic[T]):
    """One call and what came of it: a value, or the error that it raised."""

    __slots__ = ("_error", "_function", "_values")

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # noqa: BLE001  sys.exit() of a callable is its answer, not the thread's end
            self._error = error

    def result(self) -> T:
        """Return or raise it, once. An error is let go: its traceback leads back here, and would keep all of it."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._values[0]
        finally:
            del error
