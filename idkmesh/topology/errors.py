"""How a selection says no (RT-4.1, RT-3.2). Each says which code it is, which status, and whether a retry helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from idkmesh.topology.model import State, Target


class SelectionError(Exception):
    """No endpoint was selected. ``code`` and ``status`` are those of the answer."""

    code: ClassVar[str]
    status: ClassVar[int] = 503
    retryable: ClassVar[bool] = True


class AgentUnavailableError(SelectionError):
    """No ready endpoint of the target is known (RT-4.1).

    ``state`` is what the observation was, ``revision`` the revision that this is of, None where nothing is observed.
    """

    code = "AGENT_UNAVAILABLE"

    def __init__(self, target: Target, state: State, revision: int | None) -> None:
        super().__init__(f"release {target}: no ready endpoint is known, its state is {state.value}; ask again later")
        self.state = state
        self.revision = revision


class TooManyObservationsError(SelectionError):
    """As many targets are observed as may be (RT-3.2)."""

    code = "too_many_observations"

    def __init__(self, target: Target, most: int) -> None:
        super().__init__(
            f"release {target}: {most} releases are observed, which is max_observations; raise it, or wait until one "
            "was not used for an hour"
        )
