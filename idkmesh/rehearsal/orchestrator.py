"""What an orchestrator decides about one container, as a kubelet does (HL-8.2). Pure: ``now`` is an argument.

Laws of this module:

1. One machine, one table: :data:`TRANSITIONS`. An event that a phase does not have is refused: it cannot happen.
2. Until startup has succeeded nothing else is asked; from then on it is asked no more.
3. Hysteresis is two fields, the last answer and the length of its run. Only a full run acts.
4. Readiness only moves the container in and out of rotation. Startup and liveness only restart it.
5. The first restart comes at once, the following after a back-off that doubles, and begins anew after a long good run.
6. An answer that was asked of an earlier process, or in another phase, is nobody's.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.health.model import Figures, Orchestrator

NEVER: Final = float("inf")

BACKOFF_CAP: Final = 30
"""The longest back-off as a multiple of the first: a kubelet's 10 s and 5 min."""

KUBELET_BACKOFF_SECONDS: Final = 10.0
KUBELET_GRACE_SECONDS: Final = 30.0


class Kind(enum.Enum):
    """What is asked; the value is how the matrix calls it."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"

    @property
    def path(self) -> str:
        """Where it is asked."""
        return {"startup": "/startupz", "liveness": "/livez", "readiness": "/readyz"}[self.value]


class Phase(enum.Enum):
    """Where a container stands."""

    WAITING = "waiting"
    """No process: it is started when its time has come."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """Told to end, to be started again."""
    LEAVING = "leaving"
    """Told to end for good."""
    GONE = "gone"


class Event(enum.Enum):
    """What moves it."""

    DUE = "due"
    STARTED = "started"
    EXHAUSTED = "exhausted"
    """Failures of startup or liveness have reached their threshold."""
    EXITED = "exited"
    DELETED = "deleted"


class Do(enum.Enum):
    """What is to be done, or, of the last four, what has come about."""

    START = "start"
    TERMINATE = "terminate"
    KILL = "kill"
    STARTED = "started"
    ENTER = "enter"
    LEAVE = "leave"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing to do, and why."""

    do: Do
    why: str = ""


TRANSITIONS: Final[Mapping[Phase, Mapping[Event, tuple[Phase, Do | None]]]] = {
    Phase.WAITING: {Event.DUE: (Phase.STARTING, Do.START), Event.DELETED: (Phase.GONE, None)},
    Phase.STARTING: {
        Event.STARTED: (Phase.RUNNING, Do.STARTED),
        Event.EXHAUSTED: (Phase.STOPPING, Do.TERMINATE),
        Event.EXITED: (Phase.WAITING, Do.WAIT),
        Event.DELETED: (Phase.LEAVING, Do.TERMINATE),
    },
    Phase.RUNNING: {
        Event.EXHAUSTED: (Phase.STOPPING, Do.TERMINATE),
        Event.EXITED: (Phase.WAITING, Do.WAIT),
        Event.DELETED: (Phase.LEAVING, Do.TERMINATE),
    },
    Phase.STOPPING: {
        Event.DUE: (Phase.STOPPING, Do.KILL),
        Event.EXITED: (Phase.WAITING, Do.WAIT),
        Event.DELETED: (Phase.LEAVING, None),
    },
    Phase.LEAVING: {
        Event.DUE: (Phase.LEAVING, Do.KILL),
        Event.EXITED: (Phase.GONE, None),
        Event.DELETED: (Phase.LEAVING, None),
    },
    Phase.GONE: {Event.DELETED: (Phase.GONE, None)},
}

ASKED: Final[Mapping[Phase, tuple[Kind, ...]]] = {
    Phase.STARTING: (Kind.STARTUP,),
    Phase.RUNNING: (Kind.LIVENESS, Kind.READINESS),
    # A kubelet goes on to ask while a container that it restarts ends: one that drains leaves the rotation by this.
    Phase.STOPPING: (Kind.READINESS,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The matrix's figures, the seconds between TERM and KILL, and the first back-off in seconds."""

    figures: Orchestrator
    grace: float
    backoff: float

    def of(self, kind: Kind) -> Figures:
        """Return the figures of one kind of question."""
        figures: Figures = getattr(self.figures, kind.value)
        return figures


@dataclass(frozen=True, slots=True)
class Track:
    """One kind of question: when it is asked next, whether an answer is awaited, the last one and its run."""

    due: float = NEVER
    awaited: bool = False
    ok: bool | None = None
    run: int = 0


@dataclass(frozen=True, slots=True)
class Container:
    """One container. ``launches`` counts its processes; ``until`` is when WAITING ends or grace does."""

    phase: Phase = Phase.WAITING
    until: float = 0.0
    launches: int = 0
    launched: float = 0.0
    delay: float = 0.0
    in_rotation: bool = False
    startup: Track = Track()
    liveness: Track = Track()
    readiness: Track = Track()

    def track(self, kind: Kind) -> Track:
        """Return one kind's track."""
        track: Track = getattr(self, kind.value)
        return track

    def with_track(self, kind: Kind, track: Track) -> Container:
        """Return the container with another track."""
        match kind:
            case Kind.STARTUP:
                return replace(self, startup=track)
            case Kind.LIVENESS:
                return replace(self, liveness=track)
            case Kind.READINESS:
                return replace(self, readiness=track)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question to the process of a launch."""

    kind: Kind
    launch: int
    ok: bool
    detail: str = ""


Step = tuple[Container, tuple[Decision, ...]]


def due(container: Container, now: float) -> tuple[Kind, ...]:
    """Return what is to be asked now."""
    kinds = ASKED.get(container.phase, ())
    return tuple(kind for kind in kinds if not (track := container.track(kind)).awaited and track.due <= now)


def next_instant(container: Container) -> float:
    """Return when time alone changes something: a question is due, or the time of a phase is over."""
    tracks = [container.track(kind) for kind in ASKED.get(container.phase, ())]
    return min([container.until, *(track.due for track in tracks if not track.awaited)])


def asked(container: Container, kind: Kind, now: float, settings: Settings) -> Container:
    """Note that a question is under way. The next is due by when this one was, so that small delays do not add up."""
    period = settings.of(kind).period_ms / 1000
    track = container.track(kind)
    return container.with_track(kind, replace(track, awaited=True, due=max(track.due + period, now)))


def answered(container: Container, answer: Answer, now: float, settings: Settings) -> Step:
    """Take an answer in."""
    kind = answer.kind
    if answer.launch != container.launches or kind not in ASKED.get(container.phase, ()):
        return container, ()
    track = container.track(kind)
    run = track.run + 1 if track.ok is answer.ok else 1
    container = container.with_track(kind, replace(track, awaited=False, ok=answer.ok, run=run))
    if answer.ok:
        if kind is Kind.STARTUP:
            return move(container, Event.STARTED, now, settings)
        return _rotate(container, "ready", into=True) if kind is Kind.READINESS else (container, ())
    if run < settings.of(kind).failure_threshold:
        return container, ()
    why = f"{kind.value} failed {run} times, {answer.detail}" if run > 1 else f"{kind.value} failed, {answer.detail}"
    if kind is Kind.READINESS:
        return _rotate(container, why, into=False)
    return move(container, Event.EXHAUSTED, now, settings, why)


def passed(container: Container, now: float, settings: Settings) -> Step:
    """Take in that it is now so late."""
    return (container, ()) if now < container.until else move(container, Event.DUE, now, settings)


def exited(container: Container, now: float, settings: Settings, how: str) -> Step:
    """Take in that the process has ended."""
    return move(container, Event.EXITED, now, settings, how)


def deleted(container: Container, now: float, settings: Settings) -> Step:
    """Take in that the container is to go for good. It leaves the rotation at once."""
    return move(container, Event.DELETED, now, settings, "deleted")


def move(container: Container, event: Event, now: float, settings: Settings, why: str = "") -> Step:
    """Go one step of the table: the one place that writes the phase. Raises KeyError for what cannot happen."""
    phase, do = TRANSITIONS[container.phase][event]
    container = replace(container, phase=phase)
    decisions: tuple[Decision, ...] = ()
    if event in {Event.EXITED, Event.DELETED}:
        container, decisions = _rotate(container, why, into=False)
    match do:
        case Do.START:
            container = replace(container, until=NEVER, launches=container.launches + 1, launched=now)
            container = replace(container, startup=Track(due=now), liveness=Track(), readiness=Track())
        case Do.STARTED:
            container = replace(container, liveness=Track(due=now), readiness=Track(due=now))
        case Do.TERMINATE:
            container = replace(container, until=now + settings.grace)
        case Do.KILL:
            container = replace(container, until=NEVER)
        case Do.WAIT:
            container = _backed_off(container, now, settings)
            why = f"{why}, starts again " + (f"in {container.until - now:g} s" if container.until > now else "at once")
        case None if phase is Phase.GONE:
            container = replace(container, until=NEVER)
    return container, decisions if do is None else (*decisions, Decision(do, why))


def _rotate(container: Container, why: str, *, into: bool) -> Step:
    if container.in_rotation is into:
        return container, ()
    return replace(container, in_rotation=into), (Decision(Do.ENTER if into else Do.LEAVE, why),)


def _backed_off(container: Container, now: float, settings: Settings) -> Container:
    longest = BACKOFF_CAP * settings.backoff
    # Twice the longest back-off is a good run, by the kubelet's own rule.
    delay = 0.0 if now - container.launched > 2 * longest else container.delay
    following = min(2 * delay, longest) if delay else settings.backoff
    return replace(container, until=now + delay, delay=following)
