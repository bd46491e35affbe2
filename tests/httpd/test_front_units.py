"""Turns of the front on a clock that stands still, with real sockets and no other thread but workers."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import os
import selectors
import socket
import struct
from typing import TYPE_CHECKING, Any, cast

import pytest

from idkmesh.httpd import acceptor as acceptor_module
from idkmesh.httpd import connection as connection_module
from idkmesh.httpd import exchange as exchange_module
from idkmesh.httpd import front as front_module
from idkmesh.httpd import output as output_module
from idkmesh.httpd.acceptor import PAUSE_SECONDS
from idkmesh.httpd.connection import FREE_BYTES, LINGER_SECONDS, State, body_deadline
from idkmesh.httpd.core import Core
from idkmesh.httpd.deadlines import GRANULARITY
from idkmesh.httpd.exchange import Exchange
from idkmesh.httpd.front import Front
from idkmesh.httpd.outbox import MEMORY_BYTES
from idkmesh.httpd.peaks import Levels
from idkmesh.httpd.reserve import Reserve
from idkmesh.httpd.responses import Response
from idkmesh.service_runtime import Denial, ServiceIdentity, ServiceLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from idkmesh.httpd.connection import Connection
    from idkmesh.httpd.request_rules import Refusal, Request
    from idkmesh.httpd.streams import Channel
    from idkmesh.httpd.workers import Task

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
IDENTITY = ServiceIdentity(service="test", service_version="0")


class Clock:
    def __init__(self) -> None:
        self.now = 5_000.0

    def monotonic(self) -> float:
        return self.now


class Echo:
    """Echoes the body in the front; answers ``/inline`` before the cap, refuses nothing."""

    channel: Channel | None = None

    def __init__(self) -> None:
        self.inline = b"inline"
        self.answer = b""

    def preempt(self, request: Request) -> Response | Refusal | None:
        return Response(200, body=self.inline) if request.path == "/inline" else None

    def judge(self, request: Request) -> Any:
        return lambda exchange: exchange.respond(Response(200, body=exchange.body or self.answer))

    def streams(self, request: Request) -> bool:
        return False


class Direct:
    """Stands for the workers: runs each task when it is told to."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            contextvars.Context().run(self.tasks.pop(0).run)


class World:
    """A front, its clock, and clients."""

    def __init__(self, clock: Clock, **limits: Any) -> None:
        self.clock = clock
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.settimeout(0)
        self.core = Core(None, ServiceLimits(**limits), IDENTITY)
        self.workers = Direct()
        self.core.workers = cast("Any", self.workers)
        self.application = Echo()
        self.front = Front(self.core, self.listener, self.application)
        self.core.front = self.front
        self.front.acceptor.start()
        self.clients: list[socket.socket] = []

    def connect(self, data: bytes = b"", receive_buffer: int = 0) -> socket.socket:
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(30)
        client.connect(self.listener.getsockname())
        self.clients.append(client)
        if data:
            client.sendall(data)
        return client

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, then take turns until there is nothing to do."""
        self.clock.now += seconds
        for _ in range(3):
            self.front.turn(0.001)
            self.workers.run()

    def held(self, state: State) -> list[Connection]:
        return list(self.front.keeper.held[state])

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.workers.run()
        self.front.close()
        self.listener.close()
        assert self.core.connections == 0
        assert self.core.budget.used == 0
        self.core.log.close(5)


def read(client: socket.socket) -> bytes:
    """Read what has arrived, up to the end where there is one."""
    data = b""
    client.settimeout(0)
    try:
        while piece := client.recv(1 << 20):
            data += piece
    except BlockingIOError:
        pass
    except ConnectionResetError:
        return data + b"RESET"
    finally:
        client.settimeout(30)
    return data


def ended(client: socket.socket) -> bool:
    client.settimeout(0)
    try:
        return not client.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    clock = Clock()
    for module in (front_module, exchange_module, output_module):
        monkeypatch.setattr(module, "time", clock)
    worlds: list[World] = []

    def make(**limits: Any) -> World:
        worlds.append(World(clock, **limits))
        return worlds[-1]

    yield make
    for one in worlds:
        one.close()


def test_burst_between_two_looks(world: Callable[..., World]) -> None:
    """HS-13.4: what came and went between two looks at the usage was so much at once; a slot alone is a request."""
    here = world(max_concurrent_requests=8)
    clients = [here.connect(GET) for _ in range(3)] + [here.connect()]
    here.turn()
    for client in clients:
        read(client)
        client.close()
    here.turn()
    assert (here.core.limiter.in_flight, here.core.connections) == (0, 0)
    assert here.core.peaks(here.clock.now).last_second == Levels(in_flight=3, connections=4, sse_clients=0)
    here.turn(70.0)
    assert here.core.peaks(here.clock.now).last_minute == Levels()


def test_head_deadline(world: Callable[..., World]) -> None:
    """HS-4.2: closed at request_timeout, within the wheel's granularity; a byte shortly before helps nothing."""
    here = world(request_timeout=10.0)
    client = here.connect(GET[:9])
    here.turn()
    here.turn(9.9)
    assert not ended(client)
    client.settimeout(30)
    client.sendall(b"X")
    here.turn(0.09)
    assert not ended(client)
    here.turn(0.01 + GRANULARITY)
    assert ended(client)
    assert here.core.timed_out == 1


@pytest.mark.parametrize("length", [100, 650_000])
def test_body_deadline(world: Callable[..., World], length: int) -> None:
    """HS-4.3: 408 at the moment that the formula gives, not before."""
    here = world(request_timeout=10.0)
    client = here.connect(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\nx" % length)
    here.turn()
    allowed = body_deadline(0.0, length, 10.0)
    here.turn(allowed - 0.01)
    assert read(client) == b""
    here.turn(0.02 + GRANULARITY)
    assert b"408 Request Timeout" in read(client)


def test_linger_deadline(world: Callable[..., World]) -> None:
    """HS-4.6: a refused client that does not end is let go after two seconds, whatever it sends."""
    here = world(max_body_bytes=10)
    client = here.connect(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
    here.turn()
    assert b"413" in read(client)
    (lingering,) = here.held(State.LINGERING)
    assert (lingering.request, lingering.reader, lingering.body) == (None, None, b"")
    for _ in range(3):
        client.sendall(b"x" * 1000)
        here.turn(LINGER_SECONDS / 4)
    assert here.held(State.LINGERING)
    here.turn(LINGER_SECONDS / 4 + GRANULARITY)
    assert not here.held(State.LINGERING)


def test_linger_deadline_of_the_serial_profile(world: Callable[..., World]) -> None:
    """HS-4.6: where the next client waits for it, a refused client is let go after request_timeout."""
    here = world(max_body_bytes=10, serial=True, request_timeout=0.5)
    here.connect(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
    here.turn()
    here.turn(0.45)
    assert here.held(State.LINGERING)
    here.turn(0.05 + GRANULARITY)
    assert not here.held(State.LINGERING)


def begin_large(here: World) -> tuple[socket.socket, Connection]:
    here.application.inline = b"x" * 8_000_000
    client = here.connect(b"GET /inline HTTP/1.1\r\nHost: h\r\n\r\n", receive_buffer=4096)
    here.turn()
    (connection,) = here.held(State.WRITING)
    return client, connection


class Queue:
    """Stands for what the kernel tells of a socket's unacknowledged bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size = 3_000_000
        monkeypatch.setattr(connection_module, "queued_bytes", lambda sock: self.size)


def test_stalled_reader(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.4: a reader that takes nothing is dropped with a reset when request_timeout has passed."""
    here = world(request_timeout=10.0)
    Queue(monkeypatch)
    client, _ = begin_large(here)
    for _ in range(19):
        here.turn(0.5)
    here.turn(0.4)
    assert here.held(State.WRITING)
    here.turn(0.1 + 2 * GRANULARITY)
    assert not here.held(State.WRITING)
    assert read(client).endswith(b"RESET")
    assert here.core.timed_out == 1


def test_slow_reader_goes_on(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.4: each byte taken begins request_timeout anew, also when the socket has no room for more."""
    here = world(request_timeout=10.0)
    queue = Queue(monkeypatch)
    _, connection = begin_large(here)
    for _ in range(20):
        here.turn(9.0)
        queue.size -= 1
        here.turn(0.9)
        assert connection.state is State.WRITING
    assert here.core.timed_out == 0


def test_response_of_the_front_arrives(world: Callable[..., World]) -> None:
    """HS-7.4: the front goes on where the socket was full, and forgets the head's fields meanwhile."""
    here = world()
    client, connection = begin_large(here)
    assert connection.request is not None
    assert (connection.request.head, connection.request.fields, connection.request.path) == (b"", [], "/inline")
    received = b""
    while connection.state is State.WRITING:
        received += read(client)
        here.turn()
    while data := client.recv(1 << 20):
        received += data
    assert received.endswith(b"\r\n\r\n" + here.application.inline)
    assert connection.state is State.CLOSED


def test_a_large_response_of_the_front_is_in_a_file(world: Callable[..., World]) -> None:
    """HS-7.5: of what its client does not take at once, no more than 32 KiB stay in memory, and that is charged."""
    here = world()
    _, connection = begin_large(here)
    assert connection.outbox is not None
    assert connection.outbox.remaining > 2_000_000
    assert connection.outbox.memory <= MEMORY_BYTES
    assert here.core.budget.used == max(connection.kept + connection.outbox.memory - FREE_BYTES, 0)


def test_no_file_for_a_large_response_of_the_front(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HS-7.5: a temporary directory that is full cuts the response, which is one line, and nobody else's."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    here = world()
    here.application.inline = b"x" * 8_000_000
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        clients = [here.connect(b"GET /inline HTTP/1.1\r\nHost: h\r\n\r\n", receive_buffer=4096) for _ in range(2)]
        here.turn()
    assert not here.held(State.WRITING)
    assert all(client.recv(100).startswith(b"HTTP/1.0 200 OK") for client in clients)
    here.application.inline = b"short"
    client = here.connect(b"GET /inline HTTP/1.1\r\nHost: h\r\n\r\n")
    here.turn()
    assert read(client).endswith(b"short")
    here.core.log.close(5)
    assert sum("no more can be spooled" in record.message for record in caplog.records) == 1


def test_full_machine(world: Callable[..., World], caplog: pytest.LogCaptureFixture) -> None:
    """HS-4.8: EMFILE pauses the accepting, once told; lingering clients go; after the pause it goes on.

    HS-13.2: those who go are counted, and no line says that max_connections was reached.
    """
    here = world(max_body_bytes=10)
    here.connect(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
    here.turn()
    assert here.held(State.LINGERING)
    accept = here.front.acceptor._accept
    calls = []

    def full() -> Any:
        calls.append(1)
        raise OSError(errno.EMFILE, "Too many open files")

    cast("Any", here.front.acceptor)._accept = full
    client = here.connect(GET)
    here.turn()
    assert len(calls) == 1
    assert here.front.acceptor.paused
    assert not here.held(State.LINGERING)
    assert here.front._wait(here.clock.now, 5.0) <= PAUSE_SECONDS
    here.turn(PAUSE_SECONDS)
    here.turn()
    assert len(calls) >= 2
    cast("Any", here.front.acceptor)._accept = accept
    here.turn(PAUSE_SECONDS)
    here.turn()
    assert b"200 OK" in read(client)
    assert here.core.evicted == 1
    assert here.core.crossed == 0
    assert here.core.log.flush(30)
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot accept a connection: Too many open files; trying again every {PAUSE_SECONDS} s"
    ]


def full_listener(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have accept(2) find no descriptor free but those that the reserve gives up."""
    here.core.reserve = 2
    reserve = Reserve(2)
    here.front.acceptor._reserve = reserve
    reserve.fill()
    accept = here.front.acceptor._accept

    def accepted() -> Any:
        if len(reserve._held) + len(reserve.lent) == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept()

    monkeypatch.setattr(here.front.acceptor, "_accept", accepted)


def test_a_reserve_serves_while_none_is_free(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HS-4.9: one after the other, without a pause and a line; each gives its descriptor back."""
    here = world()
    full_listener(here, monkeypatch)
    for _ in range(3):
        client = here.connect(GET.replace(b"/", b"/inline", 1))
        here.turn()
        assert read(client).endswith(b"inline")
        assert here.core.connections == 0
    assert not here.front.acceptor.paused
    assert here.core.load(here.clock.now).exhausted
    assert here.core.log.flush(30)
    assert not caplog.records


def test_a_reserve_that_is_used_up(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.9, HS-4.8: told and paused; then the oldest that says nothing gives way to who asks."""
    here = world()
    full_listener(here, monkeypatch)
    silent = [here.connect() for _ in range(2)]
    here.turn()
    assert len(here.held(State.READING_HEAD)) == 2
    here.clock.now += 2
    monkeypatch.setattr(here.front.acceptor._reserve, "accept", lambda _: None)
    client = here.connect(GET.replace(b"/", b"/inline", 1))
    here.turn()
    assert here.front.acceptor.paused
    assert len(here.held(State.READING_HEAD)) == 1
    assert silent[0].recv(1) == b""
    monkeypatch.undo()
    here.turn(PAUSE_SECONDS)
    here.turn()
    assert read(client).endswith(b"inline")
    assert here.core.evicted == 1


def test_no_room_for_one_who_came_by_the_reserve(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-4.9, HS-8.1: it is closed, and the reserve is whole."""
    here = world()
    full_listener(here, monkeypatch)
    monkeypatch.setattr(here.front, "make_room", lambda _: False)
    client = here.connect()
    here.front.turn(0.001)
    assert client.recv(1) == b""
    assert here.front.acceptor._reserve.lent == set()
    assert len(here.front.acceptor._reserve._held) == 2


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ECONNABORTED, errno.ENOBUFS])
def test_a_reserve_finds_something_else(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """HS-4.9: nobody waits, or a newcomer has left: no pause; the machine lacks more than descriptors: a pause."""
    here = world()

    def accept(_: object) -> Any:
        raise OSError(number, os.strerror(number))

    full_listener(here, monkeypatch)
    monkeypatch.setattr(here.front.acceptor._reserve, "accept", accept)
    here.connect()
    here.front.turn(0.001)
    assert here.front.acceptor.paused == (number == errno.ENOBUFS)


@pytest.mark.parametrize("number", [errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_kinds_of_full(world: Callable[..., World], number: int) -> None:
    """HS-4.8: the other three ways in which a machine is full pause too."""
    here = world()

    def full() -> Any:
        raise OSError(number, os.strerror(number))

    cast("Any", here.front.acceptor)._accept = full
    here.connect()
    here.turn()
    assert here.front.acceptor.paused
    here.front.acceptor.stop()
    assert not here.front.acceptor.paused


NEWCOMERS_OWN = (
    "ECONNABORTED",
    "EPROTO",
    "EPERM",
    "ENETDOWN",
    "ENETUNREACH",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "ENONET",
    "ENOPROTOOPT",
)


class FailingAccept:
    """Stands for accept(2): raises what it is given, then accepts."""

    def __init__(self, here: World, *numbers: int) -> None:
        self.errors = [OSError(number, os.strerror(number)) for number in numbers]
        self.accept = here.front.acceptor._accept
        cast("Any", here.front.acceptor)._accept = self

    def __call__(self) -> Any:
        if self.errors:
            raise self.errors.pop()
        return self.accept()


@pytest.mark.parametrize("name", [name for name in NEWCOMERS_OWN if hasattr(errno, name)])
def test_faults_of_the_newcomer(world: Callable[..., World], caplog: pytest.LogCaptureFixture, name: str) -> None:
    """HS-4.8: a newcomer that failed in the queue is passed over in the same turn: no line, no pause, others served."""
    here = world()
    failing = FailingAccept(here, *[getattr(errno, name)] * 3)
    client = here.connect(GET)
    here.front.turn(0.001)
    assert failing.errors == []
    assert here.core.accepted == 1
    assert not here.front.acceptor.paused
    here.turn()
    assert b"200 OK" in read(client)
    assert here.core.log.flush(30)
    assert caplog.records == []


@pytest.mark.parametrize("number", [errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EIO])
def test_other_faults_of_accept(world: Callable[..., World], number: int) -> None:
    """HS-4.8: an error that is neither the newcomer's nor a full machine's is a fault and propagates."""
    here = world()
    FailingAccept(here, number)
    here.connect(GET)
    with pytest.raises(OSError, match=os.strerror(number)):
        here.turn()
    assert not here.front.acceptor.paused


def test_accepts_are_bounded_a_turn(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-10.2: a turn that may accept one accepts one; the others wait for the next."""
    here = world()
    here.front.acceptor.start(most=1)
    clients = [here.connect(GET) for _ in range(3)]
    for number in range(3):
        here.front.turn(0.001)
        assert here.core.accepted == number + 1
    here.turn()
    assert all(b"200 OK" in read(client) for client in clients)
    assert acceptor_module.ACCEPTS_PER_TURN > 100


def test_reset_before_it_was_read(world: Callable[..., World]) -> None:
    """HS-4.7: a client that has reset while it waited in the queue, or in a phase, is dropped."""
    here = world()
    body = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"
    for data in (b"", GET[:9], GET, GET.replace(b"/", b"/inline", 1), body, body + b"x", b"nonsense\n"):
        for first in (True, False):
            client = here.connect(data)
            if not first:
                here.turn()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            here.turn()
            assert here.core.connections == 0


def test_nobody_gives_way(world: Callable[..., World]) -> None:
    """HS-8.1: with nobody who may give way the newcomer is closed, and counted."""
    here = world(max_connections=32)
    here.core.connections += 32
    client = here.connect(GET)
    here.turn()
    assert read(client) in (b"", b"RESET")
    here.core.connections -= 32
    assert here.core.evicted == 1


def test_drain_figures(world: Callable[..., World]) -> None:
    """HS-9.2: what a drain waits for, and what it does not."""
    here = world()
    here.connect(GET[:9])
    body = here.connect(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx")
    here.turn()
    begin_large(here)
    here.connect(GET)
    here.front.turn(0.001)
    assert (here.front.keeper.busy, here.front.keeper.settling, here.front.keeper.lingering) == (3, 2, 0)
    assert {connection.state for connection in here.front.keeper.unfinished()} == {
        State.HANDLING,
        State.READING_BODY,
        State.WRITING,
    }
    assert here.front.keeper.newcomers(here.clock.now)
    assert not here.front.keeper.newcomers(here.clock.now + 1)
    here.front.refuse_bodies(here.clock.now)
    assert b"shutting_down" in read(body)
    assert here.core.limiter.statistics().draining_total == 1
    here.turn()
    assert here.front.keeper.busy == 1


def test_what_comes_back_after_the_end(world: Callable[..., World]) -> None:
    """HS-9.8: a connection that an abandoned handler returns when there is no loop any more is closed by its worker."""
    here = world()
    here.application.answer = b"x" * 20_000
    clients = [here.connect(GET), here.connect(GET), here.connect(GET, receive_buffer=4096)]
    here.front.turn(0.001)
    assert len(here.workers.tasks) == 3
    here.front.close()
    exchanges = [task for task in here.workers.tasks if isinstance(task, Exchange)]
    assert len(exchanges) == 3
    exchanges[1].connection.unread = True
    here.application.answer = b"x" * 20_000_000
    with contextlib.suppress(BlockingIOError):
        while True:  # so that the worker has something to give back
            exchanges[2].connection.sock.send(b"x" * 65_536)
    here.workers.run()
    assert here.core.connections == 0
    assert all(b"200 OK" in read(client) for client in clients[:2])
    assert read(clients[2]).endswith(b"RESET")


def test_crossing_ends_in_a_turn(world: Callable[..., World]) -> None:
    """HS-13.2: the end of a crossing is told by a turn, without any further request."""
    here = world(max_concurrent_requests=1)
    here.connect(GET)
    here.front.turn(0.001)  # admitted, and not run yet
    refused = here.connect(GET)
    here.front.turn(0.001)
    assert b"overloaded" in read(refused)
    assert here.core.crossed == 1
    assert here.front._wait(here.clock.now, 60.0) <= 1.0
    here.turn(60.0)
    assert here.core.crossed == 0


def test_denials_are_counted_once(world: Callable[..., World]) -> None:
    """HS-5.2, HS-5.3: whichever way a 503 is decided, it is one in the totals."""
    here = world(max_concurrent_requests=1)
    late = here.connect(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nx")
    here.front.turn(0.001)
    here.front.turn(0.001)
    here.connect(GET)
    here.front.turn(0.001)
    late.sendall(b"y")
    here.front.turn(0.01)
    assert b"overloaded" in read(late)
    early = here.connect(GET)
    here.front.turn(0.01)
    assert b"overloaded" in read(early)
    statistics = here.core.limiter.statistics()
    assert (statistics.overloaded_total, statistics.admitted_total) == (2, 1)
    assert here.core.refused == 0
    here.core.deny(Denial.DRAINING, here.clock.now)
    assert here.core.crossed == 1


def test_wake_up(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-9.6: a wake-up ends a wait; many are one; after the end of the front it is no error."""
    here = world()
    woken: list[bool] = []
    select = here.front._selector.select

    def noting(timeout: float | None = None) -> Any:
        events = select(timeout)
        woken.append(bool(events))
        return events

    monkeypatch.setattr(here.front._selector, "select", noting)
    for _ in range(5000):
        here.front.wake()
    here.front.turn(30.0)
    here.front.turn(0.0)
    here.front.wake()
    here.front.turn(30.0)
    here.front.turn(0.0)
    assert woken == [True, False, True, False]
    here.front.close()
    here.front.wake()
    assert here.front._wake_up.receiver.fileno() == -1
    here.front = Front(here.core, here.listener, here.application)


HEAD_OF_60_KB = b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: %s\r\n" % (b"v" * 60_000) + b"\r\n"
CHARGE = len(HEAD_OF_60_KB) - FREE_BYTES


def test_heads_in_the_hands_of_workers_fill_the_budget(world: Callable[..., World]) -> None:
    """HS-6.3: complete heads are charged until they are answered; one that finds no room is 503, whoever is reading."""
    here = world(max_buffered_bytes=1024 * 1024, max_concurrent_requests=64)
    room = 1024 * 1024 // CHARGE
    clients = [here.connect(HEAD_OF_60_KB) for _ in range(room + 2)]
    while here.core.accepted < room + 2:
        here.front.turn(1.0)
    here.front.turn(0.0)
    assert here.core.budget.used == room * CHARGE
    assert len(here.workers.tasks) == here.core.limiter.in_flight == room
    assert here.core.limiter.statistics().overloaded_total == 2
    here.turn()
    answers = [read(client) for client in clients]
    assert sum(b"200 OK" in answer for answer in answers) == room
    assert sum(b"overloaded" in answer for answer in answers) == 2
    assert here.core.budget.used == 0


def test_what_ended_exchanges_held_is_free_at_once(world: Callable[..., World]) -> None:
    """HS-6.3: nobody is refused for the bytes of requests that have been answered, though the front has yet to look."""
    here = world(max_buffered_bytes=1024 * 1024, max_concurrent_requests=64)
    room = 1024 * 1024 // CHARGE
    for _ in range(room):
        here.connect(HEAD_OF_60_KB)
    while here.core.accepted < room:
        here.front.turn(1.0)
    here.front.turn(0.0)
    here.workers.run()
    assert here.core.budget.used == room * CHARGE
    client = here.connect(HEAD_OF_60_KB)
    here.turn()
    assert b"200 OK" in read(client)
    assert here.core.limiter.statistics().overloaded_total == 0


def test_burst_of_short_requests(world: Callable[..., World]) -> None:
    """HS-5.4: who comes in the same turn as those that take the last slots is judged in the next, and once only."""
    here = world(max_concurrent_requests=2)
    clients = [here.connect(GET) for _ in range(4)]
    here.turn()
    assert [b" 200 OK" in read(client) for client in clients] == [True] * 4
    late = [here.connect(GET) for _ in range(5)]
    here.front.turn(0.001)  # two are admitted, and nobody runs them
    here.front.turn(0.001)
    assert sorted(b" 503 " in read(client) for client in late) == [False, False, True, True, True]
    here.workers.run()


# --- descriptors that programs close ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [GET[:9], b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"])
def test_descriptor_that_is_closed_under_the_front(
    world: Callable[..., World], caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    """HS-4.7, HS-1.2: it costs the connection whose it was: not the newcomer that gets its number, nor the front."""
    here = world()
    here.connect(data)
    here.turn()
    (state,) = (state for state, held in here.front.keeper.held.items() if held)
    (stale,) = here.held(state)
    newcomers = [here.connect(GET[:9]) for _ in range(3)]
    number = stale.sock.fileno()
    os.close(number)
    here.turn()
    assert stale.state is State.CLOSED
    assert here.core.connections == 3
    assert number in {connection.sock.fileno() for connection in here.held(State.READING_HEAD)}
    for client in newcomers:
        client.sendall(GET[9:])
    here.turn()
    assert [b"200 OK" in read(client) for client in newcomers] == [True] * 3
    assert len([line for line in caplog.messages if "descriptor of a connection is gone" in line]) == 1


def test_descriptors_that_nobody_has_any_more(world: Callable[..., World]) -> None:
    """HS-4.7: connections whose descriptors are closed end in whatever way the front meets them."""
    here = world()
    body = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"
    clients = [here.connect(data) for data in (GET[:9], body, body + b"x")]
    here.turn()
    keeper = here.front.keeper
    held = [*here.held(State.READING_HEAD), *here.held(State.READING_BODY)]
    assert len(held) == 3
    for connection in held:
        os.close(connection.sock.fileno())
    keeper.watch(held[0], selectors.EVENT_WRITE)
    keeper.release(held[1])
    keeper.hold(held[1], here.clock.now + 5)
    here.turn()
    assert [connection.state for connection in held[:2]] == [State.CLOSED] * 2
    here.turn(60)
    assert held[2].state is State.CLOSED
    assert here.core.connections == 0
    assert [ended(client) for client in clients] == [True] * 3


def test_bytes_beyond_a_refused_upgrade(world: Callable[..., World]) -> None:
    """HS-6.3, HS-4.6: what came beyond a request that asks for an upgrade is let go with its answer, and charged."""
    here = world()
    upgrade = GET[:-2] + b"Upgrade: x\r\n\r\n"
    here.connect(upgrade.replace(b"/", b"/inline", 1) + b"z" * 60_000)
    here.turn()
    (lingering,) = here.held(State.LINGERING)
    assert lingering.early == b""
    here.connect(upgrade + b"z" * 60_000)
    here.front.turn(0.001)
    (handled,) = here.held(State.HANDLING)
    assert handled.early
    assert here.core.budget.used == handled.kept - FREE_BYTES > 40_000
    here.turn()
    assert here.core.budget.used == 0
    assert handled.early == b""
