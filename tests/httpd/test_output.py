"""What a handler writes: when it leaves, its head, and where it waits."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from idkmesh.httpd import output as module
from idkmesh.httpd.budget import ByteBudget
from idkmesh.httpd.connection import FREE_BYTES, Connection, State
from idkmesh.httpd.outbox import MEMORY_BYTES, Outbox
from idkmesh.httpd.output import FLUSH_BYTES, FLUSH_SECONDS, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nServer: s\r\n\r\n"


class Made:
    def __init__(self, limit: int = 1 << 30) -> None:
        near, self.far = socket.socketpair()
        near.settimeout(0)
        self.far.settimeout(30)
        self.connection = Connection(near, None, 0.0, State.HANDLING)
        self.budget = ByteBudget(limit)
        self.output = Output(self.connection, self.budget, 0.2)

    def arrived(self) -> bytes:
        self.far.settimeout(0)
        try:
            return self.far.recv(1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.output.abandon()
        self.connection.sock.close()
        self.far.close()


@pytest.fixture
def made() -> Iterator[Made]:
    one = Made()
    yield one
    one.close()


def whole(output: Output) -> bytes:
    data = output.settle()
    assert isinstance(data, bytes)
    return data


@pytest.mark.parametrize(
    ("written", "sent", "status"),
    [
        pytest.param(HEAD + b"body", HEAD[:-2] + b"Connection: close\r\n\r\nbody", 200, id="gains the field"),
        pytest.param(
            b"HTTP/1.0 404 No\r\nconnection: keep-alive\r\nA: b\r\n\r\n",
            b"HTTP/1.0 404 No\r\nConnection: close\r\nA: b\r\n\r\n",
            404,
            id="keeps no other",
        ),
        pytest.param(
            b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\n\r\nlive",
            b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\n\r\nlive",
            101,
            id="upgrade",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD,
            b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD[:-2] + b"Connection: close\r\n\r\n",
            200,
            id="interim first",
        ),
        pytest.param(b"nothing of HTTP\r\n\r\n", b"nothing of HTTP\r\n\r\n", 0, id="something of its own"),
        pytest.param(b"", b"", 0, id="nothing"),
    ],
)
def test_head_of_a_response(made: Made, written: bytes, sent: bytes, status: int) -> None:
    """HS-7.1, HS-7.2: a response gains Connection: close and changes in nothing else, in one piece or in many."""
    for at in range(0, len(written), 3):
        made.output.write(written[at : at + 3])
    assert whole(made.output) == sent
    assert made.output.status == status


def test_small_output_waits_for_the_end(made: Made) -> None:
    """HS-7.3: below 64 KiB and 20 ms nothing leaves."""
    made.output.write(HEAD)
    made.output.flush_if_old(made.output._since + FLUSH_SECONDS / 2)
    assert made.arrived() == b""
    assert not made.output.left
    assert whole(made.output).startswith(b"HTTP/1.1 200")


def test_old_output_leaves(made: Made) -> None:
    """HS-7.3: at 20 ms the front lets it leave; an unfinished head waits for its end."""
    made.output.write(HEAD[:-2])
    made.output.flush_if_old(made.output._since + FLUSH_SECONDS * 1.01)
    assert made.arrived() == b""
    made.output.write(b"\r\nbody")
    made.output.flush_if_old(made.output._since + FLUSH_SECONDS * 1.01)
    assert made.arrived() == HEAD[:-2] + b"Connection: close\r\n\r\nbody"
    assert made.output.left
    assert made.connection.written == len(HEAD) + len(b"Connection: close\r\nbody")


def test_front_does_not_wait_for_a_worker(made: Made) -> None:
    """HS-1.2: while a worker holds the output's lock the front goes on."""
    made.output.write(HEAD)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with made.output._lock:
            held.set()
            go.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(5)
    made.output.flush_if_old(made.output._since + 1)
    go.set()
    thread.join()
    assert made.arrived() == b""


def test_output_beyond_64_kib_leaves(made: Made) -> None:
    """HS-7.3: the write that reaches 64 KiB sends."""
    made.output.write(HEAD)
    made.output.write(b"x" * (FLUSH_BYTES - len(HEAD) - 1))
    assert made.arrived() == b""
    made.output.write(b"x")
    assert made.arrived().startswith(b"HTTP/1.1 200")


def test_memory_then_file() -> None:
    """HS-7.5: what the client does not take stays in memory up to a bound, then goes to a file."""
    made = Made()
    made.output.write(HEAD + b"x" * FLUSH_BYTES)
    while not made.output._spooled:
        made.output.write(b"x" * FLUSH_BYTES)
        outbox = made.output._outbox
        assert outbox is None or outbox.memory <= MEMORY_BYTES
    rest = made.output.settle()
    assert isinstance(rest, Outbox)
    rest.close()
    made.close()


def test_budget_decides_between_memory_and_file() -> None:
    """HS-6.3, HS-7.5: without room on the budget even the first bytes go to the file."""
    made = Made(limit=1)
    made.output.write(HEAD + b"x" * 3_000_000)
    rest = made.output.settle()
    assert isinstance(rest, Outbox)
    assert rest.memory == 0
    assert rest.spooled >= 3_000_000
    assert made.budget.used == 0
    rest.close()
    made.close()


def test_body_of_the_request_counts(made: Made) -> None:
    """HS-6.3: a response is charged on top of the body that is still held."""
    made.connection.body = b"b" * 50_000
    made.output.write(HEAD + b"x" * 2_000_000)
    outbox = made.output._outbox
    assert outbox is not None
    assert made.budget.used == 50_000 + outbox.memory - FREE_BYTES


def test_replace(made: Made) -> None:
    """HS-7.6: what has not left can be replaced, file and all; what has left cannot."""
    made.output.write(HEAD)
    assert made.output.replace(b"another", 500)
    assert whole(made.output) == b"another"
    assert made.output.status == 500


def test_no_replacement_for_what_has_left(made: Made) -> None:
    """HS-7.6: after a flush there is no other response."""
    made.output.write(HEAD)
    made.output.flush()
    assert not made.output.replace(b"another", 500)
    assert made.arrived().startswith(b"HTTP/1.1 200")


def test_replacing_a_file(made: Made, tmp_path: Path) -> None:
    """HS-7.6: a file that was to be sent is closed when an error takes its place."""
    (tmp_path / "file").write_bytes(b"content")
    made.output.write(HEAD)
    with (tmp_path / "file").open("rb") as file:
        assert made.output.send_file(file) == 7
    assert made.output.replace(b"another", 500)
    assert whole(made.output) == b"another"


def test_send_file(made: Made, tmp_path: Path) -> None:
    """HS-7.4: a regular file is taken by its descriptor, from where it stands, up to what is asked."""
    (tmp_path / "file").write_bytes(b"0123456789")
    made.output.write(HEAD)
    with (tmp_path / "file").open("rb") as file:
        file.seek(2)
        assert made.output.send_file(file, 5) == 5
    rest = made.output.settle()
    assert isinstance(rest, Outbox)
    rest.send(made.connection.sock)
    assert made.arrived().endswith(b"Connection: close\r\n\r\n23456")


def test_what_is_no_regular_file(made: Made) -> None:
    """HS-7.4: anything else is left to the caller."""
    assert made.output.send_file(io.BytesIO(b"bytes")) is None
    near, far = socket.socketpair()
    with near, far, near.makefile("rb") as file:
        assert made.output.send_file(file) is None
    with open("/dev/null", "rb") as device:  # noqa: PTH123 - a device, whose name is the point
        assert made.output.send_file(device) is None


def test_file_that_does_not_tell_its_size(made: Made) -> None:
    """HS-7.4: the kernel's own files are regular and 0 bytes long: what they hold is read, so the caller does it."""
    path = Path("/proc/version")
    if not path.exists():
        pytest.skip("this system has no /proc/version")
    with path.open("rb") as file:
        assert made.output.send_file(file) is None
        assert file.read()
    assert made.output._outbox is None


def test_forked_child_writes_to_the_descriptor(made: Made, tmp_path: Path) -> None:
    """HS-10.4: a forked child sends nothing of its parent's, and what it writes itself is on the wire at once."""
    (tmp_path / "file").write_bytes(b"content")
    made.output.write(HEAD + b"of the parent")
    lock = made.output._lock
    with lock:  # as a thread of the parent may have held it
        made.output.disown()
        assert made.output.write(b"of the child") == 12
        made.output.flush()
        made.output.flush_if_old(1e9)
        with (tmp_path / "file").open("rb") as file:
            assert made.output.send_file(file) is None
    assert made.arrived() == b"of the child"
    assert made.output.settle() == b""


def test_forked_child_waits_for_room(made: Made) -> None:
    """HS-10.4: a socket that does not block and has no room makes a child wait, not lose anything."""
    made.output.disown()
    received = bytearray()

    def read() -> None:
        while piece := made.far.recv(1 << 18):
            received.extend(piece)

    thread = threading.Thread(target=read)
    with contextlib.suppress(BlockingIOError):
        while True:
            made.connection.sock.send(b"0" * 65_536)
    data = b"".join(b"%08d" % number for number in range(375_000))
    thread.start()
    assert made.output.write(data) == 3_000_000
    made.connection.sock.shutdown(socket.SHUT_WR)
    thread.join()
    assert received.endswith(data)


def test_forked_child_whose_client_has_left(made: Made) -> None:
    """HS-4.7, HS-10.4: a child learns of a client that has left as its parent would."""
    made.output.disown()
    made.far.close()
    with pytest.raises(OSError, match="pipe"):
        made.output.write(b"for nobody")


def test_client_that_has_left(made: Made) -> None:
    """HS-4.7: each way of writing raises BrokenPipeError once the client has left."""
    made.far.close()
    made.output.write(HEAD)
    with pytest.raises(BrokenPipeError, match="client has left"):
        made.output.flush()
    with pytest.raises(BrokenPipeError, match="client has left"):
        made.output.write(b"more")
    with pytest.raises(BrokenPipeError, match="client has left"):
        made.output.flush()
    assert made.output.settle() is None


def test_after_the_end(made: Made, tmp_path: Path) -> None:
    """HS-10.5: nothing can be written to a response that has ended."""
    (tmp_path / "file").write_bytes(b"content")
    file = (tmp_path / "file").open("rb")
    made.output.write(HEAD)
    made.output.settle()
    attempts = (
        lambda: made.output.write(b"late"),
        made.output.flush,
        lambda: made.output.receive(1, 0),
        lambda: made.output.send_file(file),
    )
    for attempt in attempts:
        with pytest.raises(BrokenPipeError, match="ended with its handler"):
            attempt()
    file.close()
    made.output.flush_if_old(1e9)
    assert made.arrived() == b""


def test_flush_waits_for_the_client(made: Made) -> None:
    """HS-10.4: a flush returns when the socket has taken everything, and gives up on a client that takes nothing."""
    made.output.write(HEAD + b"x" * 1_000_000)
    with pytest.raises(TimeoutError):
        made.output.flush(0.01)
    received = 0

    def read() -> None:
        nonlocal received
        while received < 1_000_000:
            received += len(made.far.recv(1 << 18))

    thread = threading.Thread(target=read)
    thread.start()
    made.output.flush(5.0)
    thread.join()
    assert received >= 1_000_000


def test_front_sends_a_bounded_part(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-1.2: a running response takes a bounded part of each turn of the front, however fast its client is."""
    monkeypatch.setattr(module, "FLUSH_TURN_BYTES", 1)
    limits = []

    def send(self: Outbox, sock: socket.socket, limit: int = 0, *, exposed: bool) -> int:
        limits.append(limit)
        return 0

    monkeypatch.setattr(Outbox, "send", send)
    made.output.write(HEAD)
    made.output.flush_if_old(made.output._since + 1)
    assert limits == [1]


def test_a_write_larger_than_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-7.5: one huge write is taken in slices, so that its file stays bounded too."""
    monkeypatch.setattr(module, "SPOOL_BYTES", 2_000_000)
    monkeypatch.setattr(module, "SLICE_BYTES", 500_000)
    made = Made()
    largest = 0

    def read() -> None:
        nonlocal largest
        while made.far.recv(1 << 18):
            largest = max(largest, made.output._spooled)

    thread = threading.Thread(target=read)
    thread.start()
    assert made.output.write(b"x" * 9_000_000) == 9_000_000
    rest = made.output.settle()
    while isinstance(rest, Outbox) and rest.remaining:
        rest.send(made.connection.sock)
    made.connection.sock.close()
    thread.join()
    assert largest < 2_000_000 + 500_000 + FLUSH_BYTES
    made.close()


def test_descriptor_is_not_given_to_who_comes_late(made: Made) -> None:
    """HS-1.2, HS-10.4: once the handler has returned its threads get no descriptor, and the socket does not block."""
    made.output.write(HEAD)
    made.output.flush()
    descriptor = made.output.share()
    assert os.get_blocking(made.connection.sock.fileno())
    assert made.output.share() == descriptor
    made.output.retire()
    assert not os.get_blocking(made.connection.sock.fileno())
    assert not made.output.shared
    with pytest.raises(BrokenPipeError, match="ended with its handler"):
        made.output.share()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_flush_that_the_end_overtakes(made: Made) -> None:
    """HS-7.4: a thread of the handler that waits in flush() or write() when the response ends is told, or let go."""
    outcomes: list[BaseException | None] = []
    made.output.write(HEAD + b"x" * 4_000_000)

    def flush() -> None:
        try:
            made.output.flush(30)
        except OSError as error:
            outcomes.append(error)

    thread = threading.Thread(target=flush)
    thread.start()
    thread.join(0.1)
    remainder = made.output.settle()
    assert isinstance(remainder, Outbox)
    remainder.close()
    while thread.is_alive():
        made.arrived()
    (error,) = outcomes
    assert isinstance(error, BrokenPipeError)


def test_nothing_waits_where_the_descriptor_blocks(made: Made, tmp_path: Path) -> None:
    """HS-1.2: neither sending bytes nor a file, nor reading, waits on a descriptor that somebody made blocking."""
    (tmp_path / "file").write_bytes(b"f" * 4_000_000)
    made.output.share()
    made.output.shared = False
    made.output.write(HEAD + b"x" * 4_000_000)
    with (tmp_path / "file").open("rb") as file:
        made.output.send_file(file)
    made.output.flush_if_old(1e9)
    with pytest.raises(BlockingIOError):
        made.output.receive(1, 0)
    remainder = made.output.settle()
    assert isinstance(remainder, Outbox)
    received = 0
    while remainder.remaining:
        received += len(made.arrived())
        remainder.send(made.connection.sock, exposed=made.connection.exposed)
    while piece := made.arrived():
        received += len(piece)
    assert received == len(HEAD) + len(b"Connection: close\r\n") + 8_000_000


def test_sharing_waits_for_the_client(made: Made) -> None:
    """HS-10.4, HS-4.4: while the descriptor is shared a write waits until it is sent, or the client takes nothing."""
    made.output.share()
    made.output.write(HEAD + b"small")
    assert made.arrived().endswith(b"\r\n\r\nsmall")
    with pytest.raises(BrokenPipeError, match="takes too little"):
        made.output.write(b"x" * 4_000_000)
    assert made.output.broken


def test_file_beside_a_shared_descriptor(made: Made, tmp_path: Path) -> None:
    """HS-10.4, HS-7.3: neither does a file wait for the end of the handler while a child may write."""
    (tmp_path / "file").write_bytes(b"content")
    made.output.note_fork()
    with (tmp_path / "file").open("rb") as file:
        assert made.output.send_file(file) == 7
    assert made.arrived() == b"content"


def test_fork_after_the_end(made: Made) -> None:
    """HS-7.4: a fork in a thread that outlives its handler changes nothing about a response that has ended."""
    made.output.settle()
    made.output.note_fork()
    assert not made.output.shared
    assert not made.connection.exposed
