"""``python``: call ``module:callable`` without arguments (HL-4.10, HL-4.11)."""

from __future__ import annotations

import importlib
import inspect
from operator import attrgetter
from typing import TYPE_CHECKING

from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.descriptors import want_descriptors
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from idkmesh.health.model import Python
    from idkmesh.health.probes.probe import Deadline


class PythonProbe(DeadlineProbe):
    """Calls somebody's code. Its import too is somebody's code, so both run in a thread that can be abandoned.

    An import that succeeds is kept. One that fails is tried again: what it needed may be there by then.
    """

    def __init__(self, spec: Python) -> None:
        self._spec = spec
        self._function: Callable[[], object] | None = None
        self._out = Abandonable("probe-python")
        super().__init__(self._out)

    def attempt(self, deadline: Deadline) -> str:
        """Call it once."""
        want_descriptors()
        return self._out.call(self._asked, deadline)

    def _asked(self) -> str:
        if self._function is None:
            self._function = _imported(self._spec.target)
        try:
            answer = self._function()
        except BaseException as error:  # noqa: BLE001  sys.exit() included; its text may hold anything
            raise failed(type(error).__name__) from None
        if inspect.iscoroutine(answer):
            answer.close()
            raise could_not_run("a coroutine function: an ordinary one is called")
        if answer is not None and answer is not True:
            raise failed("false" if answer is False else f"returned {type(answer).__name__}")
        return "true"


def _imported(target: str) -> Callable[[], object]:
    module, _, name = target.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        here = module == missing or module.startswith(f"{missing}.")
        raise could_not_run("no such module" if here else "a module that it imports is missing") from None
    except BaseException as error:  # noqa: BLE001  whatever a module does when it is imported
        raise could_not_run(f"the import failed: {type(error).__name__}") from None
    try:
        function: object = attrgetter(name)(imported)
    except AttributeError:
        raise could_not_run("no such callable") from None
    if not callable(function):
        raise could_not_run("not callable")
    return function
