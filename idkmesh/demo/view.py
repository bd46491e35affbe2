"""What a panel shows at one instant: rows of words. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.demo.course import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.demo.clients import Sales
    from idkmesh.demo.course import Course
    from idkmesh.demo.faults import Fault
    from idkmesh.demo.seen import InstanceSeen, Seen

YES: Final = "yes"
NO: Final = "no"
UNKNOWN: Final = "?"
OTHER_KEYS: Final = "u end the fault     s schedule on/off   o open the page     q quit"
KEYS_IN_LINE: Final = 3
KEY_WIDTH: Final = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One part. ``alive`` and ``ready`` are :data:`YES`, :data:`NO`, :data:`UNKNOWN` or empty."""

    name: str
    alive: str
    ready: str
    state: str


def rows(seen: Seen, sales: Sales | None) -> list[Row]:
    """Return a row for each part."""
    found = [_tower(seen), _adapter(seen)]
    if sales is not None:
        found.append(_router(seen, sales))
    if seen.tower is None:
        return found
    for name, instance in seen.tower.instances.items():
        # A dependency has the name of its instance (web-1) or of its module (store).
        verdict = seen.tower.verdicts.get(name, seen.tower.verdicts.get(name.rpartition("-")[0], ""))
        ready = {"ok": YES, "failing": NO}.get(verdict, UNKNOWN)
        stale = seen.alive is None
        alive = UNKNOWN if stale else YES if instance.running else NO
        found.append(Row(name, alive, UNKNOWN if stale else ready, "" if stale else _state(instance)))
    return found


def _tower(seen: Seen) -> Row:
    alive = {True: YES, False: NO, None: NO}[seen.alive]
    if seen.tower is None or seen.alive is None:
        return Row("control tower", alive, NO, "it does not answer")
    state = f"because of {', '.join(seen.tower.failing)}" if seen.tower.failing else ""
    return Row("control tower", alive, YES if seen.tower.readiness == "ready" else NO, state)


def _adapter(seen: Seen) -> Row:
    if seen.adapter is None:
        return Row("readiness adapter", UNKNOWN, UNKNOWN, "it does not answer")
    says = f"/live {200 if seen.adapter.live else 503}  /ready {200 if seen.adapter.ready else 503}"
    return Row("readiness adapter", YES if seen.adapter.live else NO, YES if seen.adapter.ready else NO, says)


def _router(seen: Seen, sales: Sales) -> Row:
    release = None if seen.tower is None else seen.tower.release
    known = f"{release} at revision {seen.tower.revision}, " if seen.tower is not None and release else ""
    sold = f"{sales.answered} sold, {sales.unavailable} refused, {sales.failed} failed"
    ready = UNKNOWN if release is None or seen.alive is None else YES if release == "populated" else NO
    return Row("router", UNKNOWN if seen.alive is None else YES, ready, known + sold)


def _state(instance: InstanceSeen) -> str:
    words = [instance.health]
    if instance.progress is not None:
        words.append(instance.progress)
    if instance.restart_in is not None:
        words.append("restart due" if instance.restart_in == 0 else f"restart in {instance.restart_in:.0f} s")
    if instance.restarts:
        words.append(f"restarted {instance.restarts} time{'' if instance.restarts == 1 else 's'}")
    return ", ".join(words)


def now_line(course: Course, now: float) -> str:
    """Return what is on, or what comes, with its countdown."""
    coming = course.countdown(now)
    count = "" if coming is None else f"{coming[0]} {coming[1]:.0f} s"
    if course.phase is Phase.STARTING:
        return "starting"
    if course.fault is not None:
        phase = "" if course.phase is Phase.FAULT else ", recovering"
        return f"{course.fault.name}{phase}: {count}" if count else f"{course.fault.name}{phase}"
    return count or ("calm" if course.scheduled else "calm; the schedule is off")


def key_lines(faults: Sequence[Fault]) -> list[str]:
    """Return what the keys do, in lines that fit a terminal of 80 columns."""
    texts = [f"{fault.key} {fault.name}" for fault in faults]
    lines = [texts[step : step + KEYS_IN_LINE] for step in range(0, len(texts), KEYS_IN_LINE)]
    return ["".join(text.ljust(KEY_WIDTH) for text in line).rstrip() for line in lines] + [OTHER_KEYS]
