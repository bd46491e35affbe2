"""How much of the past a store keeps (EV-2.4): its two settings, and the decision. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from idkmesh.service_runtime import Setting, given_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_DAY: Final = 86_400.0

RETENTION_SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name="event_retention_count",
        kind=int,
        default=100_000,
        minimum=100,
        maximum=10_000_000,
        unit="count",
        meaning="Events that the store keeps. Beyond it the oldest go, and a reader's position among them is 410 "
        "cursor_expired.",
        not_covered="The size of the file: an event has at most 65,536 bytes of data, and most have 200. What goes "
        "makes room for what comes; the file does not shrink.",
        precedent="The maximal lengths of Redis streams and of the event log of systemd's journal, by number.",
        document_key="event_retention_count",
    ),
    Setting(
        name="event_retention_age",
        kind=float,
        default=30 * _DAY,
        minimum=60.0,
        maximum=3650 * _DAY,
        unit="seconds",
        meaning="How long the store keeps an event, by the event's own time. What is older goes, from the oldest on. "
        "Age counts back from the clock, or from the newest event where that is earlier.",
        not_covered="An older event behind a younger one: it stays until that one goes, so that one wrong clock "
        "empties no store. Another process with the same store: the smaller setting wins.",
        precedent="MaxRetentionSec of systemd's journal; 30 days are what people look back.",
        document_key="event_retention_age_seconds",
    ),
)

_DEFAULTS: Final[dict[str, Any]] = {setting.name: setting.default for setting in RETENTION_SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a store keeps: a number of events, and their age in seconds.

    Raises :class:`~idkmesh.service_runtime.SettingError` for a value outside its range.
    """

    event_retention_count: int = _DEFAULTS["event_retention_count"]
    event_retention_age: float = _DEFAULTS["event_retention_age"]

    def __post_init__(self) -> None:
        for setting in RETENTION_SETTINGS:
            object.__setattr__(self, setting.name, setting.checked(getattr(self, setting.name), setting.name))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], overrides: Mapping[str, str | None]) -> Self:
        """Return what flags (``overrides``, by setting name) and variables ask for; flags win, as for the limits."""
        return cls(**given_settings(RETENTION_SETTINGS, environ, overrides))

    def document(self) -> dict[str, object]:
        """Return both with their units in the names, as for the limits document."""
        return {setting.document_key: getattr(self, setting.name) for setting in RETENTION_SETTINGS}

    def oldest_kept(self, now: datetime) -> datetime:
        """Return the time before which an event is too old."""
        try:
            return now - timedelta(seconds=self.event_retention_age)
        except OverflowError:  # a clock that stands in the first years
            return now.min.replace(tzinfo=now.tzinfo)

    def due_floor(self, floor: int, newest: int, first_young: int | None) -> int:
        """Return the floor that is due: the last sequence to give up, never below ``floor``.

        ``first_young`` is the sequence of the first event that is not too old, None where all of them are.
        """
        too_old = newest if first_young is None else first_young - 1
        return max(floor, newest - self.event_retention_count, too_old)
