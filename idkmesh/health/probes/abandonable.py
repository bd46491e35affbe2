"""Calls of a probe that nothing can interrupt (HL-4.11): :mod:`idkmesh.time_limiter` in the words of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from idkmesh.health.probes.words import could_not_run, failed
from idkmesh.time_limiter import LateError, NoThreadError, StillOutError, TimeLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.health.probes.probe import Deadline

T = TypeVar("T")


class Abandonable:
    """Calls of one probe, one at a time. ``name`` is the name of their threads. One thread calls the methods."""

    __slots__ = ("_calls",)

    def __init__(self, name: str) -> None:
        self._calls = TimeLimiter(name)

    @property
    def out(self) -> bool:
        """Whether a call has not come back yet."""
        return self._calls.out

    def call(self, function: Callable[[], T], deadline: Deadline) -> T:
        """Return what ``function`` returns, or raise what it raises, or what the run says without it.

        That is ``failed``, "timeout", for a call that is abandoned. It is ``could_not_run`` for one that is not made
        because an earlier one is out: the dependency was failing by then, and nothing more is learnt of it.
        """
        try:
            return self._calls.call(function, deadline.left())
        except StillOutError:
            raise could_not_run("still waiting") from None
        except NoThreadError:
            raise could_not_run("the machine is out of threads") from None
        except LateError:
            raise failed("timeout") from None
