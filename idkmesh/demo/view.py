"""What a panel shows at one instant: rows of words, and the keys in lines that fit. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.demo.course import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idkmesh.demo.clients import Sales
    from idkmesh.demo.course import Course
    from idkmesh.demo.faults import Fault
    from idkmesh.demo.seen import InstanceSeen, Seen, TowerSeen

YES: Final = "yes"
NO: Final = "no"
UNKNOWN: Final = "?"
STARTS: Final = "starting"
ADAPTER: Final = "adapter says"
OTHER_KEYS: Final = ("u end the fault", "s schedule on/off", "o open the page", "q quit")
NO_KEYS: Final = "Ctrl-C ends it"
KEYS_IN_LINE: Final = 4
KEY_WIDTH: Final = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One part. ``alive`` and ``ready`` are :data:`YES`, :data:`NO`, :data:`UNKNOWN` or empty."""

    name: str
    alive: str
    ready: str
    state: str


@dataclass(frozen=True, slots=True)
class View:
    """All that changes in a panel: what is drawn again where it is another one."""

    rows: tuple[Row, ...]
    now: str


def view(course: Course, seen: Seen, sales: Sales | None, now: float) -> View:
    """Return what is to be shown."""
    return View(tuple(rows(seen, sales)), now_line(course, now))


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
    if seen.tower is None:
        return Row("control tower", UNKNOWN, UNKNOWN, STARTS)
    alive = YES if seen.alive else NO
    if seen.alive is None:
        return Row("control tower", alive, NO, "it does not answer")
    return Row("control tower", alive, YES if seen.tower.readiness == "ready" else NO, _reasons(seen.tower))


def _reasons(tower: TowerSeen) -> str:
    warnings = [name for name, verdict in tower.verdicts.items() if verdict != "ok" and name not in tower.failing]
    parts = [f"because of {', '.join(tower.failing)}"] if tower.failing else []
    return "; ".join([*parts, f"warning: {', '.join(warnings)}"] if warnings else parts)


def _adapter(seen: Seen) -> Row:
    # Its words are about the tower: of a paused one it says that it is not alive, and runs well itself.
    if seen.adapter is None:
        return Row(ADAPTER, UNKNOWN, UNKNOWN, STARTS if seen.tower is None else "it does not answer")
    says = f"of the tower: /live {200 if seen.adapter.live else 503}  /ready {200 if seen.adapter.ready else 503}"
    return Row(ADAPTER, YES if seen.adapter.live else NO, YES if seen.adapter.ready else NO, says)


def _router(seen: Seen, sales: Sales) -> Row:
    release = None if seen.tower is None else seen.tower.release
    sold = [f"{sales.answered} sold", f"{sales.failed} failed"]
    if sales.unavailable:
        sold.append(f"{sales.unavailable} refused")
    if seen.tower is not None and release:
        sold.append(f"{release} at revision {seen.tower.revision}")
    ready = UNKNOWN if release is None or seen.alive is None else YES if release == "populated" else NO
    return Row("router", UNKNOWN if seen.alive is None else YES, ready, ", ".join(sold))


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
        return STARTS
    if course.fault is not None:
        phase = "" if course.phase is Phase.FAULT else ", recovering"
        return f"{course.fault.name}{phase}: {count}" if count else f"{course.fault.name}{phase}"
    return count or ("calm" if course.scheduled else "calm; the schedule is off")


def key_lines(faults: Sequence[Fault], width: int) -> list[str]:
    """Return what the keys do, in lines of ``width`` columns, or one key in each where even that is too narrow."""
    return _lines([f"{fault.key} {fault.name}" for fault in faults], width) + _lines(OTHER_KEYS, width)


def short_keys(faults: Sequence[Fault]) -> list[str]:
    """Return the same where there is one line for it."""
    return [f"{faults[0].key}-{faults[-1].key} faults  u end  s schedule  o page  q quit"]


def _lines(texts: Sequence[str], width: int) -> list[str]:
    def lines(columns: int) -> list[str]:
        steps = range(0, len(texts), columns)
        return ["".join(text.ljust(KEY_WIDTH) for text in texts[step : step + columns]).rstrip() for step in steps]

    most = min(KEYS_IN_LINE, len(texts))
    return next((each for each in map(lines, range(most, 1, -1)) if max(map(len, each)) <= width), lines(1))


def help_lines(faults: Sequence[Fault], *, keyed: bool, calm: float) -> list[str]:
    """Return what a panel would show all the while: what each key does, and which faults come by themselves."""
    if keyed:
        names = ", ".join(f"{fault.key} {fault.name}" for fault in faults)
        return [f"keys: {names}; u ends the fault, s stops the schedule or starts it, o opens the page, q quits"]
    names = ", ".join(f"{fault.name} (up to {fault.longest:.0f} s)" for fault in faults)
    order = f"by itself, {calm:.0f} s from the end of one to the next: {names}; then again"
    return [order, f"{NO_KEYS}, as SIGTERM does"]
