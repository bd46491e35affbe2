"""Ctrl-C in a program that has left SIGINT as Python sets it. The main thread of this process is the front."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.service_runtime import ServiceLimits
from tests.functional.support import PATIENCE, Site, SiteServer, ending, get, parse, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT = signal.default_int_handler


@pytest.fixture(autouse=True)
def sigint() -> Iterator[None]:
    """Set SIGINT as Python does, and see that each test leaves what it found."""
    before = signal.signal(signal.SIGINT, DEFAULT)
    yield
    left = signal.signal(signal.SIGINT, before)
    assert left is DEFAULT


class Interrupting(Site):
    def at_once(self) -> None:
        signal.raise_signal(signal.SIGINT)
        self.server.calls.append("after one")  # type: ignore[attr-defined]  # it is a SiteServer
        self.answer(b"whole")

    def at_twice(self) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        self.server.calls.append("after two")  # type: ignore[attr-defined]  # as above

    def at_one_by_one(self) -> None:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        self.answer(b"caught")


class Client(threading.Thread):
    """Asks once, and keeps what came and how it ended."""

    def __init__(self, server: SiteServer, path: str) -> None:
        super().__init__()
        self.socket = socket.create_connection(server.server_address, timeout=PATIENCE)  # type: ignore[arg-type]
        self.socket.sendall(get(path))
        self.data, self.end = b"", ""
        self.start()

    def run(self) -> None:
        with self.socket:
            self.data, self.end = ending(self.socket)

    def status(self) -> int:
        self.join(PATIENCE)
        assert self.end == "eof"
        return parse(self.data).status


def make(*, serial: bool) -> SiteServer:
    return SiteServer(("127.0.0.1", 0), Interrupting, limits=ServiceLimits(serial=serial))


def test_first_waits_for_the_end_of_a_turn() -> None:
    """HS-9.4, DRAIN-11: Ctrl-C within a turn, here in a serial handler, raises behind it: its client is answered."""
    with make(serial=True) as server:
        client = Client(server, "/once")
        with pytest.raises(KeyboardInterrupt):
            server.serve_forever()
        assert server.calls == ["GET /once", "after one"]
        assert client.status() == 200
        assert signal.getsignal(signal.SIGINT) is DEFAULT


def test_second_raises_at_once() -> None:
    """HS-9.4, HS-7.6: a second Ctrl-C raises where it comes, in a serial handler too; closing then raises no third."""
    with make(serial=True) as server:
        client = Client(server, "/twice")
        with pytest.raises(KeyboardInterrupt):
            server.serve_forever()
        assert server.calls == ["GET /twice"]
        assert signal.getsignal(signal.SIGINT) is DEFAULT
    assert client.status() == 500
    assert server.fileno() == -1


def test_second_that_a_handler_catches() -> None:
    """HS-9.4: two make one exception: a program that catches it goes on, and the next Ctrl-C is a first one."""
    with make(serial=True) as server:
        clients = [Client(server, "/one-by-one"), Client(server, "/once")]
        with pytest.raises(KeyboardInterrupt):
            server.serve_forever()
        assert server.calls == ["GET /one-by-one", "GET /once", "after one"]
        assert [client.status() for client in clients] == [200, 200]


def test_request_in_a_worker_is_not_lost() -> None:
    """HS-9.4, HS-9.5: Ctrl-C ends the loop while a worker is busy, and closing the server lets its answer go out."""
    with make(serial=False) as server:
        client = Client(server, "/wait")

        def interrupt() -> None:
            until(lambda: server.now_running == 1)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            server.serve_forever()
        thread.join()
        assert server.usage().in_flight == 1
        server.gate.set()
    assert client.status() == 200


def test_drain_can_be_interrupted() -> None:
    """HS-9.4, HS-9.5, DRAIN-11: Ctrl-C ends the drain that follows the first one; even then everything is closed."""
    server = make(serial=False)
    client = Client(server, "/wait")

    def interrupt() -> None:
        until(lambda: server.now_running == 1)
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: server.limiter.draining)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        server.serve_forever()
    with pytest.raises(KeyboardInterrupt):
        server.server_close()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is DEFAULT
    assert server.fileno() == -1
    server.gate.set()
    until(lambda: server.usage().connections == 0)
    assert client.status() == 200


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "a function"])
def test_handler_of_the_program_is_left_alone(own: Any) -> None:
    """HS-9.4: where the program has set SIGINT itself, its own stays set while the loop runs, and is what is called."""
    hits: list[int] = []
    handler = own if own is signal.SIG_IGN else lambda number, frame: hits.append(number)
    signal.signal(signal.SIGINT, handler)
    try:
        with make(serial=True) as server:
            client = Client(server, "/once")
            seen: list[Any] = []

            def look() -> None:
                seen.append(signal.getsignal(signal.SIGINT))
                if "after one" in server.calls:
                    server.shutdown()

            server.service_actions = look  # type: ignore[method-assign]  # a hook of this one server
            server.serve_forever(0.05)
            assert signal.getsignal(signal.SIGINT) is handler
            assert set(seen) == {handler}
            assert client.status() == 200
    finally:
        signal.signal(signal.SIGINT, DEFAULT)
    assert hits == ([] if own is signal.SIG_IGN else [signal.SIGINT])


def test_handler_that_the_program_sets_meanwhile() -> None:
    """HS-9.4: a handler that the program sets while the loop runs is not taken away when the loop ends."""
    with make(serial=True) as server:

        def set_and_stop() -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            server.shutdown()

        server.service_actions = set_and_stop  # type: ignore[method-assign]  # a hook of this one server
        try:
            server.serve_forever(0.01)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGINT, DEFAULT)


def stopped(server: SiteServer) -> None:
    server.shutdown()
    server.serve_forever()


def failed(server: SiteServer) -> None:
    server.service_actions = lambda: 1 // 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError):
        server.serve_forever(0.01)


def one_request(server: SiteServer) -> None:
    client = Client(server, "/")
    server.handle_request()
    assert client.status() == 200


def nobody_came(server: SiteServer) -> None:
    server.timeout = 0.01
    server.handle_request()


def closed(server: SiteServer) -> None:
    server.server_close()


@pytest.mark.parametrize("ends", [stopped, failed, one_request, nobody_came, closed], ids=lambda ends: ends.__name__)
def test_default_is_back_however_the_loop_ends(ends: Callable[[SiteServer], None]) -> None:
    """HS-9.4: whatever ends the loop, SIGINT is then as it was, and Ctrl-C raises where it comes."""
    with make(serial=True) as server:
        ends(server)
        assert signal.getsignal(signal.SIGINT) is DEFAULT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_handle_request_is_interrupted() -> None:
    """HS-9.4: Ctrl-C raises out of handle_request() too, behind the turn."""
    with make(serial=True) as server:
        client = Client(server, "/once")
        with pytest.raises(KeyboardInterrupt):
            server.handle_request()
        assert client.status() == 200


def test_nothing_is_installed_off_the_main_thread() -> None:
    """HS-9.4: a loop in another thread, where no signal arrives, changes nothing: Ctrl-C raises in the main thread."""
    with make(serial=False) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            client = Client(server, "/")
            assert client.status() == 200
            assert signal.getsignal(signal.SIGINT) is DEFAULT
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            client = Client(server, "/")
            assert client.status() == 200
        finally:
            server.shutdown()
            thread.join(PATIENCE)
        assert not thread.is_alive()
