"""What every service of this project shares: limits, admission, drain, request ids, headers, log lines.

Laws of this module:

1. It imports the standard library alone.
2. A limit stands once, in :data:`SETTINGS`; fields, flags, variables and the reference page are derived from it.
3. Every admission is released exactly once. A second release is a fault of the program and raises.
4. Totals count answers, each once (:class:`RequestLimiter` says which call counts).
5. Nothing here waits without an end, and no caller ever waits for a log line.

It is one module by contract, so that another service takes limits, admission, drain and log lines in one import. A
quarter of it is the table of settings.

Clauses ``HS-...`` are those of ``docs/specifications/HTTP_SERVER_V0_1.md``.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import logging
import os
import re
import reprlib
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from types import TracebackType

MAX_REQUEST_LINE_BYTES: Final = 65_536
"""Bound of the request line with its CRLF; beyond it 414 (HS-2.5). The standard library's own bound."""

MAX_HEADER_LINE_BYTES: Final = 65_536
"""Bound of one header line with its CRLF; beyond it 431 (HS-2.5). The standard library's own bound."""

SPARE_CONNECTIONS: Final = 8
"""Connections that must be left when every worker and every stream is taken (HS-2.3): probes and refusals need one."""

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


class SettingError(ValueError):
    """A setting has an impossible value: the configuration's fault, and a retry does not help.

    The message is one line that names the setting (or the flag or variable it came from), the value and the range.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the settings table.

    ``default``, ``minimum`` and ``maximum`` are in ``unit``; both ends of the range are allowed. ``not_covered`` says
    what the limit does not bound, ``precedent`` where the default comes from, ``document_key`` how the limit is called
    in the limits document.
    """

    name: str
    kind: type[int | float]
    default: float
    minimum: float
    maximum: float
    unit: str
    meaning: str
    not_covered: str
    precedent: str
    document_key: str

    @property
    def flag(self) -> str:
        """The command-line flag, ``--request-timeout``."""
        return "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        """The environment variable, ``IDKMESH_REQUEST_TIMEOUT``."""
        return "IDKMESH_" + self.name.upper()

    @property
    def range_text(self) -> str:
        """The range in words, ``a number of seconds from 0.1 to 300``."""
        noun = "a whole number" if self.kind is int else "a number"
        unit = "" if self.unit == "count" else f" of {self.unit}"
        return f"{noun}{unit} from {self.minimum:.15g} to {self.maximum:.15g}"

    def checked(self, value: object, source: str) -> float:
        """Return ``value`` as this setting stores it, or raise :class:`SettingError` that names ``source`` (HS-2.2).

        An int is taken for a float setting, never the other way round. The types are compared exactly: ``True`` is an
        int to ``isinstance``.
        """
        right_type = type(value) is int or type(value) is self.kind
        # A comparison with NaN is false, which refuses it.
        if right_type and isinstance(value, (int, float)) and self.minimum <= value <= self.maximum:
            return self.kind(value)
        raise SettingError(f"{source}: {reprlib.repr(value)} is refused, it must be {self.range_text}")


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name="request_timeout",
        kind=float,
        default=10.0,
        minimum=0.1,
        maximum=300.0,
        unit="seconds",
        meaning="Total time for a TLS handshake, and again for a request head; for a body, one second more for each "
        "64 KiB declared; for a response, the longest time in which the client takes no byte of it.",
        not_covered="How long a handler may run, and how long a slow but steady reader takes.",
        precedent="ReadHeaderTimeout of Go's net/http: a total, not a time between two bytes.",
        document_key="request_timeout_seconds",
    ),
    Setting(
        name="max_concurrent_requests",
        kind=int,
        default=16,
        minimum=1,
        maximum=1024,
        unit="count",
        meaning="Requests that are handled at once, one worker thread each. Beyond it the answer is 503 overloaded.",
        not_covered="Connections, the front's own answers (probes, refusals), and bytes.",
        precedent="CapacityLimiter of trio.",
        document_key="max_concurrent_requests",
    ),
    Setting(
        name="max_connections",
        kind=int,
        default=1000,
        minimum=1,
        maximum=65_536,
        unit="count",
        meaning="Connections open at once. At the limit the least useful one gives way to a newcomer. Lowered at start "
        "to what the descriptor limit allows.",
        not_covered="Connections in the kernel's accept queue (listen_backlog), how often one client connects, and "
        "other listeners of the same process: each counts the descriptor limit for itself.",
        precedent="connection_limit of waitress.",
        document_key="max_connections",
    ),
    Setting(
        name="max_header_fields",
        kind=int,
        default=99,
        minimum=1,
        maximum=99,
        unit="count",
        meaning="Header fields of one request. Beyond it the answer is 431.",
        not_covered="The length of one field (65,536 bytes) and of all together (max_header_bytes).",
        precedent="http.client of the standard library: 100 lines, the empty one counted.",
        document_key="max_header_fields",
    ),
    Setting(
        name="max_header_bytes",
        kind=int,
        default=256 * KIB,
        minimum=KIB,
        maximum=MIB,
        unit="bytes",
        meaning="All header lines of one request together, CRLF included. Beyond it the answer is 431.",
        not_covered="The request line, which has its own bound of 65,536 bytes.",
        precedent="max_request_header_size of waitress, which has the same default.",
        document_key="max_header_bytes",
    ),
    Setting(
        name="max_body_bytes",
        kind=int,
        default=2 * MIB,
        minimum=0,
        maximum=GIB,
        unit="bytes",
        meaning="Body of one request, as declared and as counted. Beyond it the answer is 413, before a byte is read.",
        not_covered="The bodies of several requests together (max_buffered_bytes).",
        precedent="max_request_body_size of waitress.",
        document_key="max_body_bytes",
    ),
    Setting(
        name="max_buffered_bytes",
        kind=int,
        default=64 * MIB,
        minimum=MIB,
        maximum=16 * GIB,
        unit="bytes",
        meaning="Heads, bodies and unsent responses of all connections together, charged on arrival.",
        not_covered="8 KiB that each connection may always hold, the kernel's socket buffers, and what a handler "
        "allocates.",
        precedent="The overload manager of Envoy, which sheds load by memory in all.",
        document_key="max_buffered_bytes",
    ),
    Setting(
        name="listen_backlog",
        kind=int,
        default=16,
        minimum=1,
        maximum=4096,
        unit="count",
        meaning="Connections that the kernel holds until they are accepted.",
        not_covered="Accepted connections. The kernel rounds it and may lower it (net.core.somaxconn on Linux).",
        precedent="request_queue_size of socketserver, whose default is 5.",
        document_key="listen_backlog",
    ),
    Setting(
        name="drain_timeout",
        kind=float,
        default=5.0,
        minimum=0.0,
        maximum=300.0,
        unit="seconds",
        meaning="How long a shutdown waits for requests in flight and for responses being written.",
        not_covered="A handler that goes on after it: it is abandoned, since a thread cannot be stopped.",
        precedent="Shutdown of Go's net/http with a context that has a deadline.",
        document_key="drain_timeout_seconds",
    ),
    Setting(
        name="max_sse_clients",
        kind=int,
        default=8,
        minimum=1,
        maximum=64,
        unit="count",
        meaning="Event streams open at once. Beyond it the answer is 503 too_many_streams.",
        not_covered="Requests: a stream takes no place among max_concurrent_requests.",
        precedent="A second limiter of its own, so that long streams cannot use up the short requests' places.",
        document_key="max_sse_clients",
    ),
    Setting(
        name="sse_heartbeat",
        kind=float,
        default=15.0,
        minimum=0.1,
        maximum=300.0,
        unit="seconds",
        meaning="Time without a byte after which an event stream carries a comment, so that proxies keep it and a dead "
        "peer is noticed.",
        not_covered="A client that is there and does not read (request_timeout).",
        precedent="The advice of the HTML standard on server-sent events: a comment every 15 seconds or so.",
        document_key="sse_heartbeat_seconds",
    ),
    Setting(
        name="sse_max_stream",
        kind=float,
        default=300.0,
        minimum=1.0,
        maximum=86_400.0,
        unit="seconds",
        meaning="Age at which an event stream is ended, so that the client reconnects and resumes.",
        not_covered="How often a client reconnects.",
        precedent="min-request-timeout of the Kubernetes API server, which ends a healthy watch too.",
        document_key="sse_max_stream_seconds",
    ),
    Setting(
        name="retry_after",
        kind=int,
        default=1,
        minimum=1,
        maximum=3600,
        unit="seconds",
        meaning="The Retry-After of every 503.",
        not_covered="Clients that ask again sooner: there is no per-client identity to hold them to it.",
        precedent="RFC 9110 section 10.2.3, in the form of a number of seconds.",
        document_key="retry_after_seconds",
    ),
)

_DEFAULTS: Final[dict[str, Any]] = {setting.name: setting.default for setting in SETTINGS}

# ASCII digits only: int() and float() also take underscores, spaces, signs, exponents and other scripts' digits. The
# length is bounded because int() refuses very long texts with an error of its own.
_NUMBER_TEXT: Final = {int: re.compile(r"[0-9]{1,30}"), float: re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?")}


def parse_setting(setting: Setting, text: str, source: str) -> float:
    """Return the value that ``text``, a flag's or a variable's, gives to ``setting``.

    ``source`` names the flag or variable in the :class:`SettingError` that anything else than a plain decimal number
    within the range raises.
    """
    readable = _NUMBER_TEXT[setting.kind].fullmatch(text)
    return setting.checked(setting.kind(text) if readable else text, source)


def given_settings(
    settings: Iterable[Setting], environ: Mapping[str, str], overrides: Mapping[str, object]
) -> dict[str, Any]:
    """Return what flags (``overrides``, by setting name) and variables give to ``settings``; flags win (HS-2.1).

    A flag's value is its text or already a number, None where it was not given. Raises :class:`SettingError` that names
    the flag or variable.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        given = overrides.get(setting.name)
        if isinstance(given, str):
            values[setting.name] = parse_setting(setting, given, setting.flag)
        elif given is not None:
            values[setting.name] = given
        elif setting.env in environ:
            values[setting.name] = parse_setting(setting, environ[setting.env], setting.env)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """The limits of one server, each within the range that :data:`SETTINGS` gives it.

    ``serial`` is the profile without workers (HS-2.8). Raises :class:`SettingError` for a value that HS-2.2 refuses and
    for a relation that HS-2.3 does.
    """

    request_timeout: float = _DEFAULTS["request_timeout"]
    max_concurrent_requests: int = _DEFAULTS["max_concurrent_requests"]
    max_connections: int = _DEFAULTS["max_connections"]
    max_header_fields: int = _DEFAULTS["max_header_fields"]
    max_header_bytes: int = _DEFAULTS["max_header_bytes"]
    max_body_bytes: int = _DEFAULTS["max_body_bytes"]
    max_buffered_bytes: int = _DEFAULTS["max_buffered_bytes"]
    listen_backlog: int = _DEFAULTS["listen_backlog"]
    drain_timeout: float = _DEFAULTS["drain_timeout"]
    max_sse_clients: int = _DEFAULTS["max_sse_clients"]
    sse_heartbeat: float = _DEFAULTS["sse_heartbeat"]
    sse_max_stream: float = _DEFAULTS["sse_max_stream"]
    retry_after: int = _DEFAULTS["retry_after"]
    serial: bool = False

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            checked = setting.checked(getattr(self, setting.name), setting.name)
            object.__setattr__(self, setting.name, checked)
        if type(self.serial) is not bool:
            raise SettingError(f"serial: {reprlib.repr(self.serial)} is refused, it must be True or False")
        least = self.max_concurrent_requests + self.max_sse_clients + SPARE_CONNECTIONS
        if self.max_connections < least and not self.serial:
            raise SettingError(
                f"max_connections: {self.max_connections} is refused, it must be at least {least}, which is "
                f"max_concurrent_requests {self.max_concurrent_requests} + max_sse_clients {self.max_sse_clients} "
                f"+ {SPARE_CONNECTIONS}"
            )

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401  each field has a type of its own, checked when built
        """Return a copy with ``changes``, validated as a new one is."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Self:
        """Return the limits that flags and the environment ask for (HS-2.1).

        ``overrides`` holds flags by setting name (and ``serial``): they win over the ``IDKMESH_...`` variables in
        ``environ``, which win over the defaults. A flag's value is its text or already a number; None means that the
        flag was not given. Raises :class:`SettingError` that names the flag or variable.
        """
        values: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
        return cls(**values | given_settings(SETTINGS, environ, overrides))


def limits_document(limits: ServiceLimits) -> dict[str, object]:
    """Return ``operations.limits`` of the status document: the limits in force, with units in the names.

    ``limits`` are those of the running server, ``max_connections`` as lowered at start (HS-2.4).
    """
    return {
        **{setting.document_key: getattr(limits, setting.name) for setting in SETTINGS},
        "max_request_line_bytes": MAX_REQUEST_LINE_BYTES,
        "max_header_line_bytes": MAX_HEADER_LINE_BYTES,
        "keep_alive": False,
        "rate_limiting": "not_implemented",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUsage:
    """What one server uses now (``in_flight``, ``connections``, ``sse_clients``, ``draining``) and did since start."""

    in_flight: int
    connections: int
    sse_clients: int
    draining: bool
    admitted_total: int
    overloaded_total: int
    draining_total: int
    refused_total: int
    timed_out_total: int
    evicted_total: int


def usage_document(usage: ServiceUsage) -> dict[str, object]:
    """Return ``operations.usage`` of the status document."""
    return dataclasses.asdict(usage)


class Denial(enum.Enum):
    """Why a request is not admitted."""

    OVERLOADED = "overloaded"
    DRAINING = "draining"


class DoubleReleaseError(RuntimeError):
    """An admission was released twice: the program's fault. The limiter's count is unharmed."""


class Admission:
    """A place among the requests that are handled at once; as a context manager it is released at the end.

    ``holder`` is whatever :meth:`RequestLimiter.admit` was given.
    """

    __slots__ = ("_limiter", "holder")

    def __init__(self, limiter: RequestLimiter, holder: object) -> None:
        self._limiter = limiter
        self.holder = holder

    def release(self) -> None:
        """Give the place back. Raises :class:`DoubleReleaseError` the second time (HS-5.1)."""
        self._limiter._release(self)  # noqa: SLF001  the two classes are one mechanism

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterStatistics:
    """A limiter at one instant. Totals count since it was made."""

    limit: int
    in_flight: int
    draining: bool
    admitted_total: int
    overloaded_total: int
    draining_total: int


class RequestLimiter:
    """At most ``limit`` requests at once, and none that is new during a drain (HS-5). Any thread may call any method.

    It never queues (HS-5.6). The totals count answers: :meth:`admit` counts the admission or denial that it returns,
    :meth:`would_deny` counts nothing, and who answers a request by that look alone says so with :meth:`count_denied`.
    A signal handler must call none of this: the lock may be held by the very thread that it interrupts.
    """

    __slots__ = (
        "_admitted_total",
        "_draining",
        "_draining_total",
        "_held",
        "_idle",
        "_limit",
        "_lock",
        "_overloaded_total",
        "_waiting",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting = 0
        self._held: set[Admission] = set()
        self._draining = False
        self._admitted_total = 0
        self._overloaded_total = 0
        self._draining_total = 0

    def admit(self, holder: object = None, *, promised: bool = False) -> Admission | Denial:
        """Take a place, or say why there is none. Counted.

        ``promised`` is for a request whose head was complete before the drain began: the drain does not turn it away
        (HS-5.3), a full house still does.
        """
        with self._lock:
            if self._draining and not promised:
                self._draining_total += 1
                return Denial.DRAINING
            if len(self._held) >= self._limit:
                self._overloaded_total += 1
                return Denial.OVERLOADED
            self._admitted_total += 1
            admission = Admission(self, holder)
            self._held.add(admission)
            return admission

    def would_deny(self) -> Denial | None:
        """Say what :meth:`admit` would answer now, without taking a place, waiting for the lock or counting."""
        if self._draining:
            return Denial.DRAINING
        if len(self._held) >= self._limit:
            return Denial.OVERLOADED
        return None

    def count_denied(self, denial: Denial) -> None:
        """Count a request that was answered by what :meth:`would_deny` said, without :meth:`admit`."""
        with self._lock:
            if denial is Denial.DRAINING:
                self._draining_total += 1
            else:
                self._overloaded_total += 1

    def begin_drain(self) -> None:
        """Deny every new request from now on. There is no way back; a second call changes nothing."""
        with self._lock:
            self._draining = True

    def wait_idle(self, timeout: float) -> bool:
        """Wait until no place is taken, at most ``timeout`` seconds, and say whether that is so."""
        with self._lock:
            self._waiting += 1
            try:
                return self._idle.wait_for(lambda: not self._held, timeout)
            finally:
                self._waiting -= 1

    @property
    def draining(self) -> bool:
        """Whether a drain has begun."""
        return self._draining

    @property
    def in_flight(self) -> int:
        """How many places are taken."""
        return len(self._held)

    def holders(self) -> tuple[object, ...]:
        """Return who holds a place now, in no order."""
        with self._lock:
            return tuple(admission.holder for admission in self._held)

    def statistics(self) -> LimiterStatistics:
        """Return a snapshot whose figures belong to one instant."""
        with self._lock:
            return LimiterStatistics(
                limit=self._limit,
                in_flight=len(self._held),
                draining=self._draining,
                admitted_total=self._admitted_total,
                overloaded_total=self._overloaded_total,
                draining_total=self._draining_total,
            )

    def _release(self, admission: Admission) -> None:
        with self._lock:
            if admission not in self._held:
                raise DoubleReleaseError(f"admission of {admission.holder!r} released twice: release it in one place")
            self._held.remove(admission)
            if self._waiting and not self._held:
                self._idle.notify_all()


class _RequestIds:
    """A prefix that is random for each process, and a counter: unique ids without a system call each."""

    __slots__ = ("counter", "prefix")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.prefix = os.urandom(8).hex()
        self.counter = itertools.count(1)


_request_ids: Final = _RequestIds()
if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_request_ids.renew)

_SAFE_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def new_request_id() -> str:
    """Return an id that no other request has, in this process or a fork of it. It names, and is no secret."""
    return f"{_request_ids.prefix}-{next(_request_ids.counter):x}"


def safe_request_id(candidate: str | None) -> str:
    """Return the caller's ``X-Request-ID`` if it is 1 to 128 unreserved characters (RFC 3986 2.3), else a new one."""
    if candidate is not None and _SAFE_REQUEST_ID.fullmatch(candidate):
        return candidate
    return new_request_id()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceIdentity:
    """Who answers: the ``X-IDKMesh-...`` fields of every response."""

    service: str
    service_version: str
    api_version: str = "v1"
    read_only: bool = True


def service_headers(identity: ServiceIdentity) -> tuple[tuple[str, str], ...]:
    """Return the fields that every response and refusal of a service carries, ``X-Request-ID`` aside (HS-12.2)."""
    return (
        ("X-IDKMesh-Service", identity.service),
        ("X-IDKMesh-Service-Version", identity.service_version),
        ("X-IDKMesh-API-Version", identity.api_version),
        ("X-IDKMesh-Read-Only", "true" if identity.read_only else "false"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )


ACCESS_LOG_VARIABLE: Final = "IDKMESH_HTTP_ACCESS_LOG"

MAX_LOGGED_CHARACTERS: Final = 1024
"""Characters of one value in a log line; the rest is cut. A request line of 64 KiB must not become six times that."""


def log_value(text: str) -> str:
    """Return a value as it may stand in a log line: one line, escaped, at most 1,024 characters of it."""
    cut = text[:MAX_LOGGED_CHARACTERS]
    return repr(cut)[1:-1] + ("..." if len(cut) < len(text) else "")


def access_log_enabled(environ: Mapping[str, str]) -> bool:
    """Say whether the operator asked for the access log: ``IDKMESH_HTTP_ACCESS_LOG`` is exactly ``1`` (HS-13.3)."""
    return environ.get(ACCESS_LOG_VARIABLE) == "1"


def access_log_line(  # noqa: PLR0913  a keyword for each field of the line
    *,
    time: datetime,
    request_id: str,
    method: str,
    target: str,
    status: int,
    response_bytes: int,
    duration: float,
    peer: str,
    aborted: bool = False,
) -> str:
    """Return one compact JSON line about one answered request (HS-13.3).

    ``time`` is aware, ``target`` the request-target (its query string is dropped here), ``response_bytes`` how much of
    the response was sent, its head included, ``duration`` in seconds. ``aborted`` stands in the line only where it is
    so: the response ended before its end, whatever its status says. The line is printable ASCII: a client cannot forge
    a second line, nor send its reader's terminal a command.
    """
    record = {
        "time": time.isoformat(timespec="milliseconds"),
        "request_id": request_id,
        "method": method[:MAX_LOGGED_CHARACTERS],
        "path": target.partition("?")[0][:MAX_LOGGED_CHARACTERS],
        "status": status,
        "bytes": response_bytes,
        "duration_ms": round(duration * 1000, 3),
        "peer": peer,
    }
    if aborted:
        record["aborted"] = True
    # json leaves DEL alone, the one control character of ASCII above the space.
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f")


_logger: Final = logging.getLogger("idkmesh")


def log_line(line: str, level: int) -> None:
    """Log a line at once, by the caller: for whoever may wait for a slow handler. Others have a :class:`LineLog`."""
    _logger.log(level, "%s", line)


def _log_all(lines: list[tuple[int, str]]) -> int:
    """Log each line and return how many a handler failed on: it is the program's own and may raise anything."""
    lost = 0
    for level, line in lines:
        try:
            _logger.log(level, "%s", line)
        except Exception:  # noqa: BLE001  the writer must outlive a broken handler, and has nowhere to report it
            lost += 1
    return lost


class LineLog:
    """Log lines on their way to ``logging.getLogger("idkmesh")``, without making anybody wait for a slow handler.

    At most ``capacity`` lines wait for one daemon thread that starts with the first line; a line beyond them is dropped
    and counted, and the count is logged as soon as the thread gets through (HS-13.1). Any thread may call any method.
    """

    __slots__ = ("_busy", "_capacity", "_changed", "_closed", "_dropped", "_logged_keys", "_waiting", "_writer")

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[tuple[int, str]] = deque()
        self._logged_keys: set[str] = set()
        self._dropped = 0
        self._busy = False
        self._closed = False
        self._writer: threading.Thread | None = None

    def write(self, line: str, level: int = logging.INFO) -> None:
        """Log ``line`` soon, or drop it when too many wait. After :meth:`close` it is logged at once, by the caller."""
        with self._changed:
            if not self._closed:
                self._enqueue(level, line)
                return
        _logger.log(level, "%s", line)

    def once(self, key: str, message: str, level: int = logging.WARNING) -> None:
        """Log ``message`` unless this ``key`` was logged before. Keys are the program's own, never a client's."""
        with self._changed:
            if key in self._logged_keys:
                return
            self._logged_keys.add(key)
        self.write(message, level)

    def flush(self, timeout: float) -> bool:
        """Wait until every line written so far is logged, at most ``timeout`` seconds, and say whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def close(self, timeout: float) -> bool:
        """Log what waits and end the thread, within ``timeout`` seconds, and say whether that was enough."""
        with self._changed:
            self._closed = True
            writer = self._writer
            self._changed.notify_all()
        if writer is not None:
            writer.join(timeout)
        return writer is None or not writer.is_alive()

    def _enqueue(self, level: int, line: str) -> None:
        if len(self._waiting) >= self._capacity:
            self._dropped += 1
            return
        self._waiting.append((level, line))
        self._changed.notify_all()
        if self._writer is None:
            self._start_writer()

    def _start_writer(self) -> None:
        writer = threading.Thread(target=self._run, name="idkmesh-log", daemon=True)
        try:
            writer.start()
        except RuntimeError:
            return  # the machine is out of threads, or the interpreter ends: the next line tries again
        self._writer = writer

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                lines = list(self._waiting)
                dropped = self._dropped
                self._waiting.clear()
                self._dropped = 0
                self._busy = True
            if dropped:
                lines.append((logging.WARNING, f"{dropped} log lines lost: too many at once, or a log handler failed"))
            lost = _log_all(lines)
            with self._changed:
                self._dropped += lost
                self._busy = False
                self._changed.notify_all()
