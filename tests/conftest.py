"""What holds for the whole suite."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.lxd_fixture import lxd_host  # noqa: F401  a fixture, here for the contract suite and the functional tests
from tests.parallel import Scheduling, row_of
from tests.workloads.etcd_support import one_etcd  # noqa: F401  the same, for providers and lease stores

# A shared machine may stop a test for longer than any limit on one example: time is judged where it is the subject.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xdist.remote import Producer


@pytest.fixture(scope="session", autouse=True)
def keys_end_what_is_started() -> Iterator[None]:
    """Have Ctrl-C end what tests start: a shell has a suite in the background ignore it, and its children would too."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            # One that does nothing: unlike an ignored signal, a child does not inherit it.
            signal.signal(number, lambda *_: None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Keep rows of files together where ``--dist loadfile`` keeps files together."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest where several processes share the work."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: row_of(item.nodeid))


@pytest.fixture
def untraced() -> Iterator[None]:
    """Measure no coverage meanwhile: it makes Python three times as slow, and a bound on time is not for that."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


@pytest.fixture(scope="session", autouse=True)
def no_state_of_the_user() -> Iterator[None]:
    """Keep the events of the commands that tests start out of the user's own store."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("IDKMESH_")]:
            patch.delenv(name)
        patch.setenv("XDG_STATE_HOME", folder)
        patch.setenv("IDKMESH_STORE", os.path.join(folder, "events.sqlite3"))  # noqa: PTH118  a text for the variable
        yield


@pytest.fixture(scope="session", autouse=True)
def no_thread_outlives_the_suite() -> Iterator[None]:
    """Fail when a thread is left: whatever a test starts, it ends."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = sorted(thread.name for thread in set(threading.enumerate()) - before)
    assert not left, f"threads left behind: {left}"


def children_of_this_process(state: str) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            now, parent = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and now.startswith(state):
                found.add(int(path.parent.name))
    return found


@pytest.fixture
def children() -> Callable[..., list[int]]:
    """Return what gives the processes that this one has started since, in that state if one is given.

    Those that were there before are not the test's: the browser's driver lives as long as the files that use it.
    """
    before = children_of_this_process("")
    return lambda state="": sorted(children_of_this_process(state) - before)
