"""A router without a server: it selects, asks and writes the ledger (RT-9, RT-10.1), and tells of its topology."""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any, Final

from idkmesh.httpd.request import Refusal
from idkmesh.router import fields
from idkmesh.router.forwarding import INVOCATION_SECONDS, AgentAnswer, AgentClient, Reason
from idkmesh.router.ledger import Entry, Ledger, Outcome
from idkmesh.router.parts import provider_of, selector_of
from idkmesh.router.projection import Projection
from idkmesh.router.reloading import reload_credentials
from idkmesh.topology.change_lines import line_of
from idkmesh.topology.errors import AgentUnavailableError, TooManyObservationsError
from idkmesh.topology.model import State
from idkmesh.topology.provider import Counted
from idkmesh.topology.selector import WatchSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from idkmesh.changes import Change
    from idkmesh.clock import Clock
    from idkmesh.router.configuration import RouterConfiguration
    from idkmesh.router.credentials import Credentials
    from idkmesh.router.invocation import Invocation
    from idkmesh.topology.errors import SelectionError
    from idkmesh.topology.model import Selection
    from idkmesh.topology.provider import Usability

COUNTED: Final = tuple(each.name for each in fields_of(Counted))

_FAILED: Final = {
    Reason.CONNECT: "The agent's endpoint could not be reached. Nothing was sent.",
    Reason.TIMEOUT: "The agent did not answer in time. It may have run what it was asked.",
    Reason.CLOSED: "The connection to the agent ended before its answer. It may have run what it was asked.",
    Reason.MALFORMED: "What the agent answered is no HTTP. It may have run what it was asked.",
    Reason.TOO_LARGE: "The agent's answer is larger than an answer may be. It may have run what it was asked.",
}


class RouterService:
    """The router of one configuration. Any thread may call any method.

    ``changed`` takes each change of the topology and must not wait; ``record`` commits one of the ledger, and says
    whether it is kept; ``line`` takes a line and a level of :mod:`logging`. Raises
    :class:`~idkmesh.router.parts.PartError` where the provider cannot be had.
    """

    def __init__(
        self,
        configuration: RouterConfiguration,
        *,
        clock: Clock,
        changed: Callable[[Change], None],
        record: Callable[[Change], bool],
        line: Callable[[str, int], None],
    ) -> None:
        self.configuration = configuration
        self.ledger = Ledger(clock, record, changed, line)
        self._clock = clock
        self._agents = AgentClient(clock)
        self._changed = changed
        self._line = line
        self._provider = provider_of(configuration, self._tell, line)
        self.selector = selector_of(configuration, self._provider, clock, self._tell, line)
        watched = self.selector if isinstance(self.selector, WatchSelector) else None
        self.projection = None if watched is None else Projection(watched, clock, line)
        """What answers the projection (RT-11.1); None where nothing is observed continuously (RT-11.4)."""

    def start(self) -> None:
        """Begin to keep the times of watches, and of the projection."""
        self.selector.start()
        if self.projection is not None:
            self.projection.start()

    def stop(self) -> None:
        """Abandon what goes on, and end watches and provider. A second call changes nothing."""
        self.ledger.abandon_all()
        if self.projection is not None:
            self.projection.stop()
        self.selector.stop()
        self._provider.close()

    @property
    def credentials(self) -> Credentials:
        """Who may ask."""
        return self.configuration.credentials

    def reload(self) -> bool:
        """Read the configuration again, for its credentials (RT-9.11). Returns whether they were taken."""
        return reload_credentials(self.configuration, self._line)

    def usable(self) -> Usability:
        """Say whether the provider's boundary is usable, from memory (RT-5.6)."""
        return self.selector.usable()

    def document(self, listen: str | None) -> dict[str, Any]:
        """Return what a tower's status says of it (CT-5.9). ``listen`` is its origin, None while it has none."""
        known = self.usable()
        return {
            "listen": listen,
            "provider": self.configuration.provider_name,
            "observes": self.projection is not None,
            "usable": known.usable,
            "cause": None if known.cause is None else known.cause.value,
            **self._counted_members(),
        }

    def counted(self) -> Counted | None:
        """Return what the provider has counted, from memory; None where it keeps no connection (RT-10.6)."""
        return self._provider.counted()

    def _counted_members(self) -> dict[str, int | None]:
        counted = self.counted()
        return dict.fromkeys(COUNTED) if counted is None else asdict(counted)

    def _tell(self, change: Change) -> None:
        """Tell a change of the topology: in the log too, where it is a line (RT-10.5)."""
        told = line_of(change)
        if told is not None:
            self._line(*told)
        self._changed(change)

    def invoke(
        self, invocation: Invocation, credential: str, sent: Iterable[tuple[str, str]], request_id: str
    ) -> AgentAnswer | Refusal:
        """Ask an agent, and write what came of it. ``sent`` are the fields of the caller's request."""
        entry = self.ledger.open(invocation.target, credential)
        try:
            answer = self._invoked(entry, invocation, sent, request_id)
        except BaseException:
            self.ledger.close(entry, Outcome.FAULT, 500)
            raise
        return answer

    def _invoked(
        self, entry: Entry, invocation: Invocation, sent: Iterable[tuple[str, str]], request_id: str
    ) -> AgentAnswer | Refusal:
        selection = self._select(entry, invocation)
        if isinstance(selection, Refusal):
            return selection
        until = self._clock.monotonic() + INVOCATION_SECONDS
        answer = self._agents.ask(selection.endpoint, invocation.input, fields.to_agent(sent, request_id), until)
        if isinstance(answer, Reason):
            reason = answer.value
            refusal = Refusal(502, "AGENT_TRANSPORT_FAILED", _FAILED[answer], details=(("reason", reason),))
            self.ledger.close(entry, Outcome.AGENT_TRANSPORT_FAILED, refusal.status, reason)
            return refusal
        self.ledger.close(entry, Outcome.ANSWERED, answer.status)
        return answer

    def _select(self, entry: Entry, invocation: Invocation) -> Selection | Refusal:
        """Select, or refuse and write that."""
        try:
            selection = self.selector.select(invocation.target)
        except AgentUnavailableError as error:
            entry.state, entry.revision = error.state, error.revision
            details = (("state", error.state.value),)
            self.ledger.close(entry, Outcome.AGENT_UNAVAILABLE, error.status)
            return _refusal(error, "No ready endpoint of this release is known.", details)
        except TooManyObservationsError as error:
            self.ledger.close(entry, Outcome.TOO_MANY_OBSERVATIONS, error.status)
            return _refusal(error, "As many releases are observed as max_observations allows.")
        entry.state, entry.revision = State.POPULATED, selection.revision
        return selection


def _refusal(error: SelectionError, message: str, details: tuple[tuple[str, str | int], ...] = ()) -> Refusal:
    return Refusal(error.status, error.code, message, retryable=error.retryable, details=details)
