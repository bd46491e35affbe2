"""How much of the past is kept."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.events.retention import RETENTION_SETTINGS, Retention
from idkmesh.service_runtime import SettingError
from scripts.lib.reference import DIRECTORY
from tests.events.support import NOW


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.none() | st.integers(1, 10**6), st.integers(100, 10**6))
def test_due_floor(floor: int, more: int, young: int | None, count: int) -> None:
    """EV-2.4: the floor only rises, never beyond the newest, and no more than `count` events stay above it."""
    newest = floor + more
    first_young = None if young is None or young > newest else max(young, floor + 1)
    due = Retention(event_retention_count=count).due_floor(floor, newest, first_young)
    assert floor <= due <= newest
    assert newest - due <= count
    assert first_young is None or due >= first_young - 1
    assert first_young is not None or due == newest


@pytest.mark.parametrize(
    ("floor", "newest", "first_young", "due"),
    [
        (0, 0, None, 0),
        (0, 100, 1, 0),
        (0, 101, 1, 1),
        (0, 50, 11, 10),
        (0, 50, None, 50),
        (20, 50, 21, 20),
        (0, 200, 11, 100),
    ],
)
def test_due_floor_by_example(floor: int, newest: int, first_young: int | None, due: int) -> None:
    """EV-2.4: what is too old or too many goes, from the oldest on."""
    assert Retention(event_retention_count=100).due_floor(floor, newest, first_young) == due


def test_oldest_kept() -> None:
    """EV-2.4: age counts back from the time that is passed in, and a clock in the first years is no fault."""
    assert Retention(event_retention_age=60.0).oldest_kept(NOW) == NOW - dt.timedelta(minutes=1)
    assert Retention().oldest_kept(dt.datetime(1, 1, 2, tzinfo=dt.UTC)) == dt.datetime(1, 1, 1, tzinfo=dt.UTC)


def test_flags_win_over_variables() -> None:
    """EV-2.4: the settings are judged as the limits are."""
    environ = {"IDKMESH_EVENT_RETENTION_COUNT": "200", "IDKMESH_EVENT_RETENTION_AGE": "90.5"}
    found = Retention.from_environ(environ, {"event_retention_count": "300", "event_retention_age": None})
    assert found == Retention(event_retention_count=300, event_retention_age=90.5)
    assert Retention.from_environ({}, {}) == Retention()
    assert found.document() == {"event_retention_count": 300, "event_retention_age_seconds": 90.5}


@pytest.mark.parametrize("text", ["99", "10000001", "1e3", "-1", "", "1.5", " 100"])
def test_refused_counts(text: str) -> None:
    """EV-2.4: outside the range, or no plain number; the line names the flag."""
    with pytest.raises(SettingError, match=r"^--event-retention-count: "):
        Retention.from_environ({}, {"event_retention_count": text})


@pytest.mark.parametrize("setting", RETENTION_SETTINGS, ids=lambda setting: setting.name)
def test_documented(setting: object) -> None:
    """EV-2.4: name, flag, variable and key of each setting stand on the reference page."""
    page = (DIRECTORY / "settings.md").read_text(encoding="utf-8")
    for name in ("name", "flag", "env", "document_key"):
        assert getattr(setting, name) in page
