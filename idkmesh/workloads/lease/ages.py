"""How much time has passed for certain since something was written, by the boot clock alone (AR-5.3, AR-6.2). Pure.

The wall clock may jump either way, so it decides nothing. What was written in an earlier boot was written before this
one began: at least the seconds of this boot have passed since, and perhaps many more.
"""

from __future__ import annotations

from typing import NamedTuple


class BootInstant(NamedTuple):
    """An instant of the boot clock: which boot, None where the system does not say, and seconds since its start."""

    boot: str | None
    seconds: float


def of_another_boot(then: BootInstant, now: BootInstant) -> bool:
    """Say whether ``then`` is for certain of an earlier boot than ``now``."""
    if then.boot is None or now.boot is None:  # the clock of one boot never goes back
        return now.seconds < then.seconds
    return then.boot != now.boot


def certain_age(then: BootInstant, now: BootInstant) -> float | None:
    """Return the seconds that have passed for certain.

    None where ``then`` lies ahead in the same boot, which no clock of one machine does: somebody has copied the file,
    or counts from another start (a time namespace).
    """
    if of_another_boot(then, now):
        return now.seconds
    age = now.seconds - then.seconds
    return age if age >= 0 else None
