"""What the front and the workers share: dates, crossings, figures, the access log."""

from __future__ import annotations

import json
import logging
import socket
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from idkmesh.httpd.connection import Connection, State
from idkmesh.httpd.core import Core, Limit, Load
from idkmesh.httpd.crossing import QUIET_SECONDS
from idkmesh.httpd.outbox import Outbox
from idkmesh.httpd.peaks import Levels, UsagePeaks
from idkmesh.httpd.refusals import BODY_TOO_LARGE, DENIED
from idkmesh.service_runtime import Admission, Denial, ServiceIdentity, ServiceLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

IDENTITY = ServiceIdentity(service="test", service_version="0")


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


@pytest.fixture
def lines() -> Iterator[list[str]]:
    logger = logging.getLogger("idkmesh")
    handler = Lines()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Iterator[Core]:
    monkeypatch.setenv("IDKMESH_HTTP_ACCESS_LOG", "1")
    one = Core(None, ServiceLimits(), IDENTITY)
    yield one
    assert one.log.close(5)


def test_date_is_made_once_a_second(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9110 5.6.7: an IMF-fixdate in GMT, which follows the clock, backwards too."""
    now = 784_111_777.9
    monkeypatch.setattr(time, "time", lambda: now)
    first = core.http_date()
    assert first == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert core.http_date() is first
    now -= 86_400
    assert core.http_date() == "Sat, 05 Nov 1994 08:49:37 GMT"


def test_crossings_are_told_by_limit(core: Core, lines: list[str]) -> None:
    """HS-13.2: each limit has its own beginning and end, with its value, and what happened to how many."""
    for at in range(3):
        core.deny(Denial.OVERLOADED, 10.0 + at)
        core.evict(11.0 + at)
        core.hit(Limit.BYTES, 12.0 + at)
    core.deny(Denial.DRAINING, 12.0)
    assert core.crossed == 3
    core.end_crossings(12.0 + QUIET_SECONDS)
    assert core.crossed == 2
    core.end_crossings(1000.0)
    core.end_crossings(2000.0)
    assert core.crossed == 0
    assert core.log.flush(30)
    assert lines == [
        "WARNING max_concurrent_requests (16) is reached: requests beyond it are answered 503",
        "WARNING max_connections (1000) is reached: connections give way to newcomers",
        "WARNING max_buffered_bytes (67108864) is reached: requests that need more are answered 503",
        "INFO max_concurrent_requests is no longer reached: 3 refused within 2.0 s",
        "INFO max_connections is no longer reached: 3 closed within 2.0 s",
        "INFO max_buffered_bytes is no longer reached: 3 refused within 2.0 s",
    ]
    assert core.evicted == 3
    assert core.limiter.statistics().overloaded_total == 3


def test_usage(core: Core) -> None:
    """HS-5.2: a 503 counts where the limiter counts it; every other refusal counts as refused."""
    core.count_refusal(DENIED[Denial.OVERLOADED])
    core.count_refusal(BODY_TOO_LARGE)
    core.timed_out, core.connections = 4, 5
    core.evict(0.0)
    usage = core.usage()
    assert (usage.refused_total, usage.timed_out_total, usage.connections, usage.evicted_total) == (1, 4, 5, 1)
    assert (usage.in_flight, usage.sse_clients, usage.draining) == (0, 0, False)


def test_refusal_says_that_the_cap_was_reached(core: Core) -> None:
    """HS-13.4: who is refused for want of a slot has seen all of them taken, in that second; a drain says nothing."""
    core.deny(Denial.DRAINING, 10.0)
    core.hit(Limit.BYTES, 10.0)
    assert core.peaks(10.0).last_minute.in_flight == 0
    core.deny(Denial.OVERLOADED, 20.0)
    assert core.peaks(21.9).last_second.in_flight == core.limits.max_concurrent_requests
    assert core.peaks(22.0).last_second.in_flight == 0
    assert core.peaks(80.9).last_minute.in_flight == core.limits.max_concurrent_requests
    assert core.peaks(81.0).last_minute.in_flight == 0


def test_peaks_are_not_below_what_is_used(core: Core) -> None:
    """CT-5.10: what is used at this moment is part of both peaks, also where nothing was noted yet."""
    core.connections = 3
    admission = core.limiter.admit()
    expected = Levels(in_flight=1, connections=3, sse_clients=0)
    assert core.peaks(50.0) == UsagePeaks(last_second=expected, last_minute=expected)
    assert isinstance(admission, Admission)
    admission.release()
    assert core.peaks(50.0).last_second.in_flight == 0


def test_level_that_stays_is_known_while_it_lasts(core: Core) -> None:
    """HS-13.4: a level that does not change is noted in each second, so it is in the minute after its end."""
    core.connections = 7
    core.note_levels(10.0)
    core.note_levels(100.0)
    core.connections = 0
    assert core.peaks(150.0).last_minute.connections == 7
    assert core.peaks(150.0).last_second.connections == 0


def connection(status: int) -> Connection:
    one = Connection(cast("Any", None), ("192.0.2.1", 5), 100.0, State.CLOSED)
    one.status = status
    return one


def test_load(core: Core) -> None:
    """RA-5.5: what is used, and whether requests, connections or bytes, but not streams, meet their limit."""
    core.connections = 3
    assert core.load(100.0) == Load(connections=3, in_flight=0, buffered_bytes=0, exhausted=False)
    core.hit(Limit.STREAMS, 100.0)
    assert not core.load(100.0).exhausted
    for number, limit in enumerate((Limit.REQUESTS, Limit.CONNECTIONS, Limit.BYTES), start=1):
        now = 100.0 + 10 * number
        core.hit(limit, now)
        assert core.load(now).exhausted
        core.end_crossings(now + QUIET_SECONDS)
        assert not core.load(now + QUIET_SECONDS).exhausted
    core.full_until = 200.0
    assert core.load(199.9).exhausted
    assert not core.load(200.0).exhausted


def test_access_line(core: Core, lines: list[str]) -> None:
    """HS-13.3: one line an answer, with the time of its last byte; none for what was not answered."""
    one = connection(200)
    core.log_access(one, ended=100.25)
    core.log_access(one)
    core.log_access(connection(0))
    cut = connection(200)
    cut.cut = True
    core.log_access(cut)
    unfinished = connection(200)
    unfinished.outbox = Outbox()
    core.log_access(unfinished)
    unix = connection(400)
    unix.address = ("", 0)
    core.log_access(unix)
    assert core.log.flush(30)
    first, *others = (json.loads(line.removeprefix("INFO ")) for line in lines)
    assert (first["status"], first["duration_ms"], first["peer"]) == (200, 250.0, "192.0.2.1")
    assert first["request_id"]
    assert "aborted" not in first
    assert [other.get("aborted", False) for other in others] == [True, True, False]


class Denying:
    def __init__(self) -> None:
        self.told = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.told += 1


def test_verification(core: Core) -> None:
    """HS-10.2: without a check of its own a program takes everybody; a check that raises is told and counts as no."""
    sock, address = cast("Any", None), ("192.0.2.1", 5)
    assert core.verified(sock, address)
    core.server = Denying()

    def fail(sock: Any, address: Any) -> bool:
        raise ValueError("cannot tell")

    core.verify = fail
    assert not core.verified(sock, address)
    assert core.server.told == 1


def test_verification_that_sets_a_timeout(core: Core) -> None:
    """HS-1.2: a program that looks at a newcomer with a timeout does not leave one to the front."""
    near, far = socket.socketpair()

    def look(sock: Any, address: Any) -> bool:
        sock.settimeout(30)
        return address is None

    core.verify = look
    assert core.verified(near, None)
    assert near.gettimeout() == 0
    assert not core.verified(near, "other")
    near.close()
    far.close()


def test_a_worker_may_be_early(core: Core) -> None:
    """HS-9.8: without a front nothing is given back to it."""
    early = connection(200)
    core.give_back(early)
    assert early.status == 200
