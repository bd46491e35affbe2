from __future__ import annotations

import dataclasses
import enum
import http.client
import json
import logging
import math
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from idkmesh import service_runtime
from idkmesh.service_runtime import (
    MAX_LOGGED_CHARACTERS,
    SETTINGS,
    Admission,
    Denial,
    DoubleReleaseError,
    LineLog,
    RequestLimiter,
    ServiceIdentity,
    ServiceLimits,
    ServiceUsage,
    Setting,
    SettingError,
    access_log_enabled,
    access_log_line,
    limits_document,
    log_value,
    new_request_id,
    parse_setting,
    safe_request_id,
    service_headers,
    usage_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BY_NAME = {setting.name: setting for setting in SETTINGS}

# As the project's design states them; the table must say the same.
STATED_LIMITS = {
    "request_timeout": (10.0, 0.1, 300.0),
    "max_concurrent_requests": (16, 1, 1024),
    "max_connections": (1000, 1, 65_536),
    "max_header_fields": (99, 1, 99),
    "max_header_bytes": (262_144, 1024, 1_048_576),
    "max_body_bytes": (2_097_152, 0, 1_073_741_824),
    "max_buffered_bytes": (67_108_864, 1_048_576, 17_179_869_184),
    "listen_backlog": (16, 1, 4096),
    "drain_timeout": (5.0, 0.0, 300.0),
    "max_sse_clients": (8, 1, 64),
    "sse_heartbeat": (15.0, 0.1, 300.0),
    "sse_max_stream": (300.0, 1.0, 86_400.0),
    "retry_after": (1, 1, 3600),
}

settings = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


def limits_with(setting: Setting, value: object) -> ServiceLimits:
    """Build serial limits: the relation between settings stays out of a test of one."""
    return ServiceLimits(serial=True, **{setting.name: value})  # type: ignore[arg-type]


def admitted(limiter: RequestLimiter, holder: object = None, *, promised: bool = False) -> Admission:
    admission = limiter.admit(holder, promised=promised)
    assert isinstance(admission, Admission)
    return admission


class TestSettings:
    def test_defaults_and_ranges(self) -> None:
        """HS-2.1: the table states each default and range."""
        assert {s.name: (s.default, s.minimum, s.maximum) for s in SETTINGS} == STATED_LIMITS

    def test_table_and_fields_agree(self) -> None:
        """HS-2.1: each constructor argument but the profile is a row, in the same order, with the row's default."""
        fields = [field for field in dataclasses.fields(ServiceLimits) if field.name != "serial"]
        assert [(field.name, field.default) for field in fields] == [(s.name, s.default) for s in SETTINGS]

    @settings
    def test_row_is_complete(self, setting: Setting) -> None:
        """HS-2.1: each row has its unit, meaning, what it does not cover, and a precedent, as sentences."""
        assert setting.unit in {"seconds", "bytes", "count"}
        for text in (setting.meaning, setting.not_covered, setting.precedent):
            assert text.endswith(".")
        assert type(setting.default) is setting.kind

    def test_names_elsewhere(self) -> None:
        """HS-2.1: flag and variable are derived from the name."""
        setting = BY_NAME["request_timeout"]
        assert (setting.flag, setting.env) == ("--request-timeout", "IDKMESH_REQUEST_TIMEOUT")

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("request_timeout", "a number of seconds from 0.1 to 300"),
            ("max_concurrent_requests", "a whole number from 1 to 1024"),
            ("max_buffered_bytes", "a whole number of bytes from 1048576 to 17179869184"),
        ],
    )
    def test_range_in_words(self, name: str, text: str) -> None:
        """HS-2.2: the range is stated in full, never rounded."""
        assert BY_NAME[name].range_text == text


class TestLimits:
    @settings
    def test_both_ends_are_allowed(self, setting: Setting) -> None:
        """HS-2.2: minimum and maximum belong to the range, and are stored with the setting's type."""
        for value in (setting.minimum, setting.maximum):
            stored = getattr(limits_with(setting, setting.kind(value)), setting.name)
            assert (stored, type(stored)) == (value, setting.kind)

    @settings
    def test_beyond_either_end(self, setting: Setting) -> None:
        """HS-2.2: one step beyond is refused with the setting's name, the value and the range."""
        step = 1 if setting.kind is int else 0.001
        for value in (setting.kind(setting.minimum - step), setting.kind(setting.maximum + step)):
            with pytest.raises(SettingError) as refused:
                limits_with(setting, value)
            assert str(refused.value) == f"{setting.name}: {value!r} is refused, it must be {setting.range_text}"

    @settings
    @pytest.mark.parametrize("value", [True, False, math.nan, math.inf, -math.inf, "10", None, b"1", [1], 1j])
    def test_wrong_kind_of_value(self, setting: Setting, value: object) -> None:
        """HS-2.2: booleans, NaN, infinities and other types are refused."""
        with pytest.raises(SettingError, match=setting.name):
            limits_with(setting, value)

    def test_float_for_a_whole_number(self) -> None:
        """HS-2.2: 16.0 is no number of requests."""
        with pytest.raises(SettingError, match="whole number"):
            ServiceLimits(max_concurrent_requests=16.0)  # type: ignore[arg-type]

    def test_int_for_a_float(self) -> None:
        """HS-2.2: a whole number of seconds is a number of seconds, and is stored as a float."""
        assert type(ServiceLimits(request_timeout=3).request_timeout) is float

    def test_enum_member_is_no_int(self) -> None:
        """HS-2.2: a subclass of int is of the wrong type, as bool is."""
        level = enum.IntEnum("level", {"HIGH": 20})
        with pytest.raises(SettingError):
            ServiceLimits(max_concurrent_requests=level.HIGH)

    def test_serial_is_a_boolean(self) -> None:
        """HS-2.2: 1 is not True."""
        with pytest.raises(SettingError, match="serial"):
            ServiceLimits(serial=1)  # type: ignore[arg-type]

    def test_relation(self) -> None:
        """HS-2.3: workers, streams and eight more must fit; at the sum they do, one below they do not."""
        ServiceLimits(max_concurrent_requests=20, max_sse_clients=10, max_connections=38)
        with pytest.raises(SettingError, match="max_connections: 37 is refused, it must be at least 38"):
            ServiceLimits(max_concurrent_requests=20, max_sse_clients=10, max_connections=37)

    def test_relation_without_workers(self) -> None:
        """HS-2.3: the relation is one of workers, the serial profile has none."""
        assert ServiceLimits(serial=True, max_connections=1).max_connections == 1

    def test_frozen(self) -> None:
        """Rule: limits in force cannot be changed behind the server's back."""
        with pytest.raises(dataclasses.FrozenInstanceError):
            ServiceLimits().retry_after = 2  # type: ignore[misc]

    def test_replace(self) -> None:
        """Rule: a changed copy is validated as a new one is."""
        limits = ServiceLimits(retry_after=7)
        assert limits.replace(max_connections=500) == ServiceLimits(retry_after=7, max_connections=500)
        with pytest.raises(SettingError, match="max_connections"):
            limits.replace(max_connections=10)


class TestParsing:
    @settings
    def test_default_as_text(self, setting: Setting) -> None:
        """HS-2.1: what the reference page states can be given on a command line."""
        assert parse_setting(setting, str(setting.default), setting.flag) == setting.default

    @settings
    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            " 5",
            "5 ",
            "5\n",
            "+5",
            "-5",
            "1_0",
            "5e0",
            "0x5",
            "5,0",
            "nan",
            "inf",
            "\u0665",
            "\uff15",
            ".5",
            "5.",
        ],
    )
    def test_only_plain_decimals(self, setting: Setting, text: str) -> None:
        """Rule: ASCII digits, and a point between digits where a fraction is allowed; nothing else is a number."""
        with pytest.raises(SettingError, match=r"^--the-flag: "):
            parse_setting(setting, text, "--the-flag")

    def test_fraction_of_a_whole_number(self) -> None:
        """HS-2.2: half a connection is refused as text too."""
        with pytest.raises(SettingError, match=r"'4\.5' is refused, it must be a whole number"):
            parse_setting(BY_NAME["retry_after"], "4.5", "--retry-after")

    @pytest.mark.parametrize("digits", [31, 5000])
    def test_very_long_number(self, digits: int) -> None:
        """Rule: an error is one line of readable length, whatever was given."""
        for name in ("retry_after", "request_timeout"):
            with pytest.raises(SettingError) as refused:
                parse_setting(BY_NAME[name], "9" * digits, "--x")
            assert len(str(refused.value)) < 120

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """HS-2.2: any text gives a value within the range, or one printable line that names the source."""
        setting = BY_NAME["request_timeout"]
        try:
            value = parse_setting(setting, text, "IDKMESH_REQUEST_TIMEOUT")
        except SettingError as error:
            message = str(error)
            assert message.startswith("IDKMESH_REQUEST_TIMEOUT: ")
            assert message.endswith(setting.range_text)
            assert "\n" not in message
        else:
            assert setting.minimum <= value <= setting.maximum

    def test_precedence(self) -> None:
        """HS-2.1: a flag wins over a variable, a variable over the default."""
        environ = {"IDKMESH_RETRY_AFTER": "5", "IDKMESH_LISTEN_BACKLOG": "64", "PATH": "/bin"}
        limits = ServiceLimits.from_environ(environ, {"retry_after": "9", "drain_timeout": 2, "max_connections": None})
        assert limits == ServiceLimits(retry_after=9, listen_backlog=64, drain_timeout=2.0)

    def test_losing_variable_is_not_read(self) -> None:
        """HS-2.1: what a flag overrides cannot stop the program."""
        assert ServiceLimits.from_environ({"IDKMESH_RETRY_AFTER": "soon"}, {"retry_after": 3}).retry_after == 3

    def test_profile(self) -> None:
        """HS-2.8: the profile is chosen by the program, beside the settings."""
        assert ServiceLimits.from_environ({}, {"serial": True}).serial

    @pytest.mark.parametrize(
        ("environ", "overrides", "source"),
        [
            ({"IDKMESH_RETRY_AFTER": ""}, {}, "IDKMESH_RETRY_AFTER: ''"),
            ({"IDKMESH_REQUEST_TIMEOUT": "0"}, {}, "IDKMESH_REQUEST_TIMEOUT: 0.0"),
            ({}, {"max_body_bytes": "2M"}, "--max-body-bytes: '2M'"),
            ({}, {"max_body_bytes": -1}, "max_body_bytes: -1"),
        ],
    )
    def test_source_is_named(self, environ: dict[str, str], overrides: dict[str, object], source: str) -> None:
        """HS-2.2: the error names the variable or the flag that gave the value."""
        with pytest.raises(SettingError, match=f"^{source} is refused"):
            ServiceLimits.from_environ(environ, overrides)


class TestDocuments:
    def test_limits(self) -> None:
        """HS-2.4, HS-2.5, HS-2.7: the document has these keys, with units, and says what there is not."""
        assert limits_document(ServiceLimits(max_connections=400)) == {
            "request_timeout_seconds": 10.0,
            "max_concurrent_requests": 16,
            "max_connections": 400,
            "max_request_line_bytes": 65_536,
            "max_header_line_bytes": 65_536,
            "max_header_fields": 99,
            "max_header_bytes": 262_144,
            "max_body_bytes": 2_097_152,
            "max_buffered_bytes": 67_108_864,
            "listen_backlog": 16,
            "drain_timeout_seconds": 5.0,
            "max_sse_clients": 8,
            "sse_heartbeat_seconds": 15.0,
            "sse_max_stream_seconds": 300.0,
            "retry_after_seconds": 1,
            "keep_alive": False,
            "rate_limiting": "not_implemented",
        }

    def test_usage(self) -> None:
        """Rule: the usage document has these keys."""
        usage = ServiceUsage(
            in_flight=1,
            connections=2,
            sse_clients=3,
            draining=True,
            admitted_total=4,
            overloaded_total=5,
            draining_total=6,
            refused_total=7,
            timed_out_total=8,
            evicted_total=9,
        )
        assert usage_document(usage) == {
            "in_flight": 1,
            "connections": 2,
            "sse_clients": 3,
            "draining": True,
            "admitted_total": 4,
            "overloaded_total": 5,
            "draining_total": 6,
            "refused_total": 7,
            "timed_out_total": 8,
            "evicted_total": 9,
        }

    def test_grammar_bounds_are_the_standard_librarys(self) -> None:
        """HS-2.5: a change in the installed standard library shows here."""
        assert http.client._MAXLINE == service_runtime.MAX_REQUEST_LINE_BYTES  # type: ignore[attr-defined]
        assert http.client._MAXLINE == service_runtime.MAX_HEADER_LINE_BYTES  # type: ignore[attr-defined]
        # Its bound counts the empty line that ends the head.
        assert BY_NAME["max_header_fields"].maximum + 1 == http.client._MAXHEADERS  # type: ignore[attr-defined]


class TestLimiter:
    def test_cap(self) -> None:
        """HS-5.1, HS-5.4: N places at a cap of N, then the reason; a released place is free at once."""
        limiter = RequestLimiter(2)
        first, _ = admitted(limiter), admitted(limiter)
        assert limiter.admit() is Denial.OVERLOADED
        first.release()
        admitted(limiter)
        assert limiter.in_flight == 2

    def test_context_manager(self) -> None:
        """HS-5.5: the place comes back however the block ends."""
        limiter = RequestLimiter(1)

        def fails() -> None:
            with admitted(limiter, "job") as admission:
                assert admission.holder == "job"
                raise KeyError

        with pytest.raises(KeyError):
            fails()
        assert limiter.in_flight == 0

    def test_second_release(self) -> None:
        """HS-5.1: a second release raises, names the holder, and gives nobody's place away."""
        limiter = RequestLimiter(2)
        admission, _ = admitted(limiter, "job 7"), admitted(limiter)
        admission.release()
        with pytest.raises(DoubleReleaseError, match="'job 7' released twice"):
            admission.release()
        assert limiter.in_flight == 1

    def test_equal_holders(self) -> None:
        """HS-5.1: places are told apart by admission, so holders may be equal or unhashable."""
        limiter = RequestLimiter(3)
        admissions = [admitted(limiter, []), admitted(limiter, [])]
        admissions[0].release()
        assert limiter.holders() == ([],)

    def test_drain(self) -> None:
        """HS-9.1: a drain denies what is new, even when there is room; what runs goes on."""
        limiter = RequestLimiter(2)
        running = admitted(limiter)
        seen = [limiter.draining]
        for _ in range(2):
            limiter.begin_drain()
            seen.append(limiter.draining)
        assert seen == [False, True, True]
        assert limiter.admit() is Denial.DRAINING
        running.release()

    def test_promised(self) -> None:
        """HS-5.3: a head that was complete before the drain is admitted in it, unless the house is full."""
        limiter = RequestLimiter(1)
        limiter.begin_drain()
        admitted(limiter, promised=True)
        assert limiter.admit(promised=True) is Denial.OVERLOADED

    def test_look(self) -> None:
        """HS-5.2: the look gives the reason, takes no place and counts nothing."""
        limiter = RequestLimiter(1)
        assert limiter.would_deny() is None
        admission = admitted(limiter)
        assert limiter.would_deny() is Denial.OVERLOADED
        limiter.begin_drain()
        assert limiter.would_deny() is Denial.DRAINING
        admission.release()
        assert limiter.would_deny() is Denial.DRAINING
        statistics = limiter.statistics()
        assert (statistics.overloaded_total, statistics.draining_total) == (0, 0)

    def test_totals_count_answers(self) -> None:
        """Rule: what admit returns counts once, and so does an answer given by the look alone."""
        limiter = RequestLimiter(1)
        admission = admitted(limiter)
        limiter.admit()
        limiter.count_denied(Denial.OVERLOADED)
        limiter.begin_drain()
        limiter.admit()
        limiter.count_denied(Denial.DRAINING)
        limiter.count_denied(Denial.DRAINING)
        assert dataclasses.asdict(limiter.statistics()) == {
            "limit": 1,
            "in_flight": 1,
            "draining": True,
            "admitted_total": 1,
            "overloaded_total": 2,
            "draining_total": 3,
        }
        admission.release()

    def test_wait_idle_with_nothing_in_flight(self) -> None:
        """HS-9.2: with nothing in flight the wait ends at once."""
        assert RequestLimiter(1).wait_idle(60)

    def test_wait_idle_times_out(self) -> None:
        """HS-9.2: the wait ends at its timeout and says that it was too short."""
        limiter = RequestLimiter(1)
        admitted(limiter)
        assert not limiter.wait_idle(0)
        assert not limiter.wait_idle(0.01)

    def test_wait_idle_wakes(self) -> None:
        """HS-9.2: the last release, not the first, wakes every waiter."""
        limiter = RequestLimiter(2)
        admissions = [admitted(limiter), admitted(limiter)]
        results: list[bool] = []
        waiters = [threading.Thread(target=lambda: results.append(limiter.wait_idle(30))) for _ in range(2)]
        for waiter in waiters:
            waiter.start()
        admissions[0].release()
        assert results == []
        admissions[1].release()
        for waiter in waiters:
            waiter.join(30)
        assert results == [True, True]

    def test_threads(self) -> None:
        """HS-5.4: under contention never more than N hold a place, and every attempt is counted once."""
        limit, threads, attempts = 4, 12, 3000
        limiter = RequestLimiter(limit)
        start = threading.Barrier(threads)
        worst: list[int] = []

        def hammer() -> None:
            start.wait()
            seen = 0
            for _ in range(attempts):
                admission = limiter.admit()
                if isinstance(admission, Admission):
                    with admission:
                        seen = max(seen, limiter.in_flight)
            worst.append(seen)

        workers = [threading.Thread(target=hammer) for _ in range(threads)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            sys.setswitchinterval(interval)
        statistics = limiter.statistics()
        assert max(worst) <= limit
        assert statistics.in_flight == 0
        assert statistics.admitted_total + statistics.overloaded_total == threads * attempts


class LimiterModel(RuleBasedStateMachine):
    """The limiter against a list and three integers."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 3
        self.limiter = RequestLimiter(self.limit)
        self.held: list[Admission] = []
        self.released: list[Admission] = []
        self.draining = False
        self.answers = {"admitted": 0, "overloaded": 0, "draining": 0}

    @rule(promised=st.booleans())
    def admit(self, promised: bool) -> None:
        answer = self.limiter.admit(len(self.held), promised=promised)
        if self.draining and not promised:
            assert answer is Denial.DRAINING
            self.answers["draining"] += 1
        elif len(self.held) == self.limit:
            assert answer is Denial.OVERLOADED
            self.answers["overloaded"] += 1
        else:
            assert isinstance(answer, Admission)
            self.held.append(answer)
            self.answers["admitted"] += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        admission = data.draw(st.sampled_from(self.held))
        admission.release()
        self.held.remove(admission)
        self.released.append(admission)

    @precondition(lambda self: self.released)
    @rule()
    def release_again(self) -> None:
        with pytest.raises(DoubleReleaseError):
            self.released[-1].release()

    @rule()
    def drain(self) -> None:
        self.limiter.begin_drain()
        self.draining = True

    @invariant()
    def agrees(self) -> None:
        statistics = self.limiter.statistics()
        assert statistics.in_flight == len(self.held) == self.limiter.in_flight
        assert len(self.limiter.holders()) == len(self.held)
        assert self.limiter.wait_idle(0) is (not self.held)
        assert self.answers == {
            "admitted": statistics.admitted_total,
            "overloaded": statistics.overloaded_total,
            "draining": statistics.draining_total,
        }


TestLimiterModel = LimiterModel.TestCase


class TestRequestIds:
    def test_unique_over_threads(self) -> None:
        """HS-12.2: no two requests have the same id."""
        made: list[list[str]] = []
        threads = [
            threading.Thread(target=lambda: made.append([new_request_id() for _ in range(2000)])) for _ in "1234"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({request_id for ids in made for request_id in ids}) == 8000

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
    def test_fork(self) -> None:
        """HS-12.2: a forked process does not repeat its parent's ids."""
        program = (
            "import os, sys\n"
            "from idkmesh.service_runtime import new_request_id\n"
            "new_request_id()\n"
            "child = os.fork()\n"
            "os.write(1, (new_request_id() + '\\n').encode())\n"
            "sys.exit(os.waitpid(child, 0)[1] if child else 0)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        first, second = done.stdout.split()
        assert first.partition("-")[0] != second.partition("-")[0]

    @pytest.mark.parametrize("candidate", ["a", "A-Z.0_9~", "x" * 128])
    def test_safe_one_is_echoed(self, candidate: str) -> None:
        """HS-12.2: a safe caller's id is echoed."""
        assert safe_request_id(candidate) == candidate

    @pytest.mark.parametrize("candidate", [None, "", "x" * 129, "a b", "a\n", "\n", "a\r\nX: y", "\u00e9", "a/b", '"'])
    def test_unsafe_one_is_replaced(self, candidate: str | None) -> None:
        """HS-12.2: anything else is replaced by a new id, which is safe itself."""
        replaced = safe_request_id(candidate)
        assert replaced != candidate
        assert safe_request_id(replaced) == replaced

    def test_headers(self) -> None:
        """HS-12.2: the service and security fields, with the service's own values."""
        headers = dict(service_headers(ServiceIdentity(service="tower", service_version="1.2")))
        assert headers == {
            "X-IDKMesh-Service": "tower",
            "X-IDKMesh-Service-Version": "1.2",
            "X-IDKMesh-API-Version": "v1",
            "X-IDKMesh-Read-Only": "true",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }

    def test_headers_of_a_service_that_writes(self) -> None:
        """HS-12.2: read-only is said only of what is."""
        identity = ServiceIdentity(service="other", service_version="1", read_only=False)
        assert dict(service_headers(identity))["X-IDKMesh-Read-Only"] == "false"


class TestLogValue:
    @given(st.text())
    def test_one_printable_line(self, text: str) -> None:
        """HS-13.2: whatever a client sends is one printable line; printable text stays as it is."""
        value = log_value(text)
        assert value.isprintable()
        if text.isprintable() and "\\" not in text and "'" not in text:
            assert value == text

    @pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 60_000])
    def test_long_values_are_cut(self, length: int) -> None:
        """HS-13.2: 1,024 characters of a value are told, and that there are more."""
        text = "x" * length
        assert log_value(text) == (text if length <= 1024 else "x" * 1024 + "...")

    def test_escapes_count_as_what_they_escape(self) -> None:
        """HS-13.2: the cut is before the escaping, so no escape is cut in two; a value is 10 KiB in a line at most."""
        assert log_value("\U0010ffff" * 60_000) == "\\U0010ffff" * 1024 + "..."


class TestAccessLog:
    def line(self, **changes: Any) -> str:
        answered: dict[str, Any] = {
            "time": datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC),
            "request_id": "abc-1",
            "method": "GET",
            "target": "/api/v1/status",
            "status": 200,
            "response_bytes": 512,
            "duration": 0.001_234_5,
            "peer": "127.0.0.1:5000",
        }
        return access_log_line(**(answered | changes))

    def test_line(self) -> None:
        """HS-13.3: one compact JSON object with these keys."""
        assert self.line() == (
            '{"time":"2026-01-02T03:04:05.678+00:00","request_id":"abc-1","method":"GET","path":"/api/v1/status",'
            '"status":200,"bytes":512,"duration_ms":1.234,"peer":"127.0.0.1:5000"}'
        )

    def test_query_is_left_out(self) -> None:
        """HS-13.3: a query string may hold a secret and is not logged."""
        line = self.line(target="/a?token=SECRET?x")
        assert json.loads(line)["path"] == "/a"
        assert "SECRET" not in line

    @given(st.text(), st.text(), st.text())
    def test_any_text(self, method: str, target: str, peer: str) -> None:
        """HS-13.3: whatever a client sends, the line is printable ASCII and reads back the same."""
        line = self.line(method=method, target=target, peer=peer)
        assert line.isascii()
        assert line.isprintable()
        record = json.loads(line)
        assert (record["method"], record["peer"]) == (method, peer)
        assert record["path"] == target.partition("?")[0]

    def test_long_values_are_cut(self) -> None:
        """Rule: one request cannot fill the log."""
        record = json.loads(self.line(method="M" * 65_000, target="/" * 65_000))
        assert len(record["method"]) == len(record["path"]) == MAX_LOGGED_CHARACTERS

    @pytest.mark.parametrize(
        ("value", "enabled"), [("1", True), ("0", False), ("", False), ("true", False), ("1 ", False)]
    )
    def test_opt_in(self, value: str, *, enabled: bool) -> None:
        """HS-13.3: the variable is exactly 1, or there is no access log."""
        assert access_log_enabled({"IDKMESH_HTTP_ACCESS_LOG": value}) is enabled

    def test_default(self) -> None:
        """HS-13.3: the access log is opt-in."""
        assert not access_log_enabled({})


class Collector(logging.Handler):
    """Keeps messages; stands still while its gate is closed; fails on one text."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.reached.set()
        self.gate.wait(30)
        if record.getMessage() == "poison":
            raise OSError
        self.messages.append(record.getMessage())


@pytest.fixture
def collector() -> Iterator[Collector]:
    handler = Collector()
    logger = logging.getLogger("idkmesh")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    handler.gate.set()
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def line_log(collector: Collector) -> Iterator[LineLog]:
    log = LineLog(capacity=3)
    yield log
    collector.gate.set()
    assert log.close(30)


class TestLineLog:
    def test_order(self, line_log: LineLog, collector: Collector) -> None:
        """HS-13.1: lines arrive in order; the text is never read as a format."""
        line_log.write("100 %s")
        line_log.write("second", logging.WARNING)
        assert line_log.flush(30)
        assert collector.messages == ["100 %s", "second"]

    def test_no_thread_before_the_first_line(self) -> None:
        """Rule: a log that nobody writes to costs no thread."""
        log = LineLog()
        assert log.flush(0)
        assert log.close(0)

    def test_full_queue(self, line_log: LineLog, collector: Collector) -> None:
        """HS-13.1: a full queue drops and counts without blocking, and says the count once when there is room."""
        collector.gate.clear()
        line_log.write("in the handler")
        assert collector.reached.wait(30)
        started = time.monotonic()
        for number in range(8):
            line_log.write(f"line {number}")
        assert time.monotonic() - started < 5
        assert not line_log.flush(0.01)
        collector.gate.set()
        assert line_log.flush(30)
        line_log.write("later")
        assert line_log.flush(30)
        lost = "5 log lines lost: too many at once, or a log handler failed"
        assert collector.messages == ["in the handler", "line 0", "line 1", "line 2", lost, "later"]

    def test_failing_handler(self, line_log: LineLog, collector: Collector) -> None:
        """HS-13.1: a handler that raises costs its line, which is counted, not the writer."""
        line_log.write("poison")
        assert line_log.flush(30)
        line_log.write("next")
        assert line_log.flush(30)
        assert collector.messages == ["next", "1 log lines lost: too many at once, or a log handler failed"]

    def test_once(self, line_log: LineLog, collector: Collector) -> None:
        """HS-13.2: one line a key."""
        for message in ("first", "again"):
            line_log.once("keep-alive", message)
        line_log.once("other", "third")
        assert line_log.flush(30)
        assert collector.messages == ["first", "third"]

    def test_close_logs_what_waits(self, line_log: LineLog, collector: Collector) -> None:
        """HS-13.1: closing loses nothing that was taken, and a second close is harmless."""
        collector.gate.clear()
        for text in ("one", "two"):
            line_log.write(text)
        assert not line_log.close(0.01)
        collector.gate.set()
        assert line_log.close(30)
        assert line_log.close(0)
        assert collector.messages == ["one", "two"]

    def test_line_after_close(self, line_log: LineLog, collector: Collector) -> None:
        """Rule: a line after the end is not lost, and starts no thread."""
        assert line_log.close(30)
        line_log.write("late")
        assert collector.messages == ["late"]

    def test_no_thread_to_be_had(
        self, line_log: LineLog, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rule: when the machine is out of threads the caller goes on, and the line waits for the next attempt."""

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            line_log.write("first")
        line_log.write("second")
        assert line_log.flush(30)
        assert collector.messages == ["first", "second"]
