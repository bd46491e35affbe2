"""Streams of events over real sockets."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.httpd import stream_hub
from idkmesh.httpd.outbox import send_some
from idkmesh.httpd.stream_hub import SEND_BUFFER_BYTES
from idkmesh.httpd.streams import BACKLOG, Beginning
from tests.functional.stream_support import GOODBYE, Reader, streaming
from tests.functional.support import PATIENCE, abort, closed_by_peer, ending, get, until
from tests.functional.tls_support import client_context, server_context

if TYPE_CHECKING:
    from tests.functional.support import Running


def opened(run: Running, *fields: str, **options: Any) -> Reader:
    """Open a stream and wait until its head and opening comment are there."""
    reader = Reader(run.server.server_address, *fields, **options)
    run.clients.append(reader.sock)
    reader.until(b"\r\n\r\n: ")
    return reader


def test_head_and_first_bytes_come_at_once() -> None:
    """EV-5.1, SSE-13: the head says what proxies and readers need, has no length, and leaves at once with a comment."""
    with streaming(newest=3) as run:
        reader = opened(run)
        assert reader.data.startswith(b"HTTP/1.0 200 ")
        fields = reader.fields
        assert fields["content-type"] == "text/event-stream; charset=utf-8"
        assert fields["x-accel-buffering"] == "no"
        assert fields["cache-control"] == "no-store"
        assert fields["connection"] == "close"
        assert fields["x-idkmesh-stream-position"] == "3"
        assert fields["x-request-id"]
        assert not {"content-length", "transfer-encoding", "content-encoding"} & set(fields)


def test_head_request() -> None:
    """EV-5.1, HTTP-10: HEAD answers the head alone, and opens no stream."""
    with streaming(newest=3) as run:
        with Reader(run.server.server_address, method="HEAD") as reader:
            assert reader.to_end().endswith(b"\r\n\r\n")
        assert reader.fields["content-type"].startswith("text/event-stream")
        assert run.front.hub.statistics().opened_total == 0


def test_head_request_has_the_fields_of_get() -> None:
    """EV-5.1, CT-3.4: HEAD says from where GET would go on, and is refused where GET is."""
    with streaming(newest=30, max_sse_clients=1) as run:
        with Reader(run.server.server_address, "Last-Event-ID: 20", method="HEAD") as reader:
            reader.to_end()
            assert reader.fields["x-idkmesh-stream-position"] == "20"
        opened(run)
        with Reader(run.server.server_address, method="HEAD") as reader:
            assert reader.to_end().startswith(b"HTTP/1.0 503 ")


def test_opening_hides_nothing_from_the_others() -> None:
    """EV-5.9: what is published while the front opens a stream reaches the idle ones at once."""
    with streaming() as run:
        idle = opened(run)
        run.server.meanwhile = run.server.publish
        opened(run).until(b"\r\n\r\n: ")
        idle.until(b"id: 1\n")
        with Reader(run.server.server_address, method="HEAD") as reader:
            reader.to_end()
        idle.until(b"id: 2\n")


def test_tail_gets_what_is_published() -> None:
    """EV-5.2, EV-5.3: without a position a stream carries what comes from now on; each event has its id and no name."""
    with streaming(newest=3) as run:
        reader = opened(run)
        run.server.publish(2)
        reader.until(b"id: 5\n")
        reader.until(b"x\n\n")
        assert reader.ids == [4, 5]
        assert b"event:" not in reader.data


def test_resume_gets_every_later_event_once() -> None:
    """EV-5.3: with a position a stream carries every later event, in order, then goes on; the field's case is free."""
    with streaming(newest=1000) as run:
        reader = opened(run, "LAST-EVENT-ID: 20")
        run.server.publish(5)
        reader.until(b"id: 1005\n")
        assert reader.ids == list(range(21, 1006))


def test_resume_at_the_newest_reads_no_history() -> None:
    """EV-5.3: who has everything is live at once."""
    with streaming(newest=10) as run:
        reader = opened(run, "Last-Event-ID: 10")
        run.server.publish()
        reader.until(b"id: 11\n")
        assert (reader.ids, run.server.history.reads) == ([11], 0)


def test_published_while_history_is_read() -> None:
    """EV-5.3, SSE-08: what is committed between the reading of history and the first live event comes, once."""
    with streaming(newest=450) as run:
        history = run.server.history
        history.hold.clear()
        reader = opened(run, "Last-Event-ID: 0")
        until(lambda: history.reads == 1)
        run.server.publish(30)
        history.hold.set()
        reader.until(b"id: 480\n")
        assert reader.ids == list(range(1, 481))


def test_many_clients_resume_while_events_flow() -> None:
    """EV-5.3, SSE-08: clients that connect, read a little, leave and resume see one sequence, whole and once."""
    stop = threading.Event()
    # Three times the clients: on a busy machine one comes back before the server has seen it leave.
    with streaming(newest=100, max_sse_clients=64) as run:

        def publish() -> None:
            while not stop.wait(0.002):
                run.server.publish(2)

        seen: list[list[int]] = [[] for _ in range(20)]

        def follow(ids: list[int]) -> None:
            last = 0
            for rounds in range(6):
                reader = opened(run, f"Last-Event-ID: {last}")
                reader.until(b"id: %d\n" % (last + 40 + rounds))
                ids += reader.whole_ids()
                last = ids[-1] if ids else 0
                reader.close()

        publisher = threading.Thread(target=publish)
        followers = [threading.Thread(target=follow, args=(ids,)) for ids in seen]
        for thread in (publisher, *followers):
            thread.start()
        for thread in followers:
            thread.join(PATIENCE * 3)
        stop.set()
        publisher.join(PATIENCE)
        for ids in seen:
            assert ids == list(range(1, len(ids) + 1))
            assert len(ids) >= 240


def test_filter() -> None:
    """EV-5.5: a filter holds for history and for what is published."""
    with streaming(newest=500) as run:
        reader = opened(run, "Last-Event-ID: 0", query="?kind=k0")
        run.server.publish(4)
        reader.until(b"id: 504\n")
        assert reader.ids == list(range(2, 505, 2))


def test_refusals_are_answers() -> None:
    """EV-5.4: what the program refuses is answered as an envelope, and is no stream."""
    with streaming() as run:
        assert run.ask(get("/events", "Last-Event-ID: x")).code == "invalid_last_event_id"
        assert run.front.hub.statistics().opened_total == 0


def test_history_that_is_lost_ends_the_stream() -> None:
    """EV-5.4: where retention overtakes a stream it ends; a silent gap would be a lie."""
    with streaming(newest=300) as run:
        run.server.history.floor = 200
        reader = opened(run, "Last-Event-ID: 100")
        reader.to_end()
        assert reader.ids == []


def test_history_that_cannot_be_read_ends_the_stream() -> None:
    """EV-5.9: a fault of the store ends the streams that need it, is told once, and the others go on."""
    with streaming(newest=300) as run:
        tail = opened(run)
        run.server.history.broken = True
        for _ in range(5):
            opened(run, "Last-Event-ID: 100").to_end()
        run.server.history.broken = False
        reader = opened(run, "Last-Event-ID: 100")
        reader.until(b"id: 300\n")
        until(lambda: run.log.about("can be read again"))
        assert len(run.log.about("the disk is gone")) == 1
        run.server.publish()
        tail.until(b"id: 301\n")


def test_nobody_waits_for_those_that_left() -> None:
    """EV-5.9: history is not read for clients that came and went, so they cannot keep others waiting."""
    with streaming(newest=300) as run:
        history = run.server.history
        history.hold.clear()
        for _ in range(6):
            visitor = opened(run, "Last-Event-ID: 1")
            visitor.close()
            until(lambda: run.server.usage().sse_clients == 0)
        reader = opened(run, "Last-Event-ID: 298")
        history.hold.set()
        reader.until(b"id: 300\n")
        assert history.reads == 2, "the first visitor's, and the reader's"


def test_a_faulty_subscribe_is_a_500() -> None:
    """HS-7.6: what a program's own code raises on the front is answered and told, and the server goes on."""
    with streaming() as run:

        def fail() -> None:
            raise KeyError("a fault")

        run.server.meanwhile = fail
        assert run.ask(get("/events")).code == "internal_error"
        until(lambda: run.log.about("KeyError"))
        run.server.meanwhile = None
        opened(run)


def test_a_large_body_is_413() -> None:
    """HS-3.13, HS-6.2: a stream asked for with a body is judged as any request; a small one is discarded."""
    with streaming() as run:
        assert run.ask(get("/events", "Content-Length: 100000000")).code == "payload_too_large"
        reader = opened(run, "Content-Length: 5")
        reader.sock.sendall(b"12345")
        run.server.publish()
        reader.until(b"id: 1\n")


def test_limit_of_its_own() -> None:
    """EV-5.6, HS-13.2: one too many is 503 too_many_streams, told once; a place that is left is taken by the next."""
    with streaming(max_sse_clients=2) as run:
        first, _second = opened(run), opened(run)
        assert run.ask(get("/events")).code == "too_many_streams"
        assert run.ask(get("/events")).code == "too_many_streams"
        statistics = run.front.hub.statistics()
        assert (statistics.open, statistics.opened_total, statistics.refused_total) == (2, 2, 2)
        until(lambda: run.log.about("max_sse_clients (2) is reached"))
        assert len(run.log.about("max_sse_clients")) == 1
        assert run.server.usage().sse_clients == 2
        first.close()
        until(lambda: run.server.usage().sse_clients == 1)
        opened(run)


def test_streams_take_no_slot() -> None:
    """EV-5.6: a stream opens and goes on while every slot is taken, and takes none; a drain it does not escape."""
    with streaming(max_concurrent_requests=1) as run:
        before = opened(run)
        run.connect(get("/slow"))
        assert run.server.entered.acquire(timeout=PATIENCE)
        assert run.ask(get("/slow")).code == "overloaded"
        during = opened(run)
        run.server.publish()
        for reader in (before, during):
            reader.until(b"id: 1\n")
        assert run.server.usage().in_flight == 1
        run.server.begin_drain()
        assert run.ask(get("/events")).code == "shutting_down"


def test_no_thread_a_stream() -> None:
    """EV-5.9: eight streams, four of them resuming, need one thread more than none: the reader of history."""
    with streaming(newest=2000) as run:
        before = threading.active_count()
        readers = [opened(run, "Last-Event-ID: 0") for _ in range(4)] + [opened(run) for _ in range(4)]
        run.server.publish()
        for reader in readers:
            reader.until(b"id: 2001\n")
        assert threading.active_count() <= before + 1
        assert run.server.history.threads == {"idkmesh-replay"}


def test_nothing_polls_the_history() -> None:
    """EV-5.9: streams that are live read nothing."""
    with streaming(newest=10) as run:
        reader = opened(run, "Last-Event-ID: 0")
        reader.until(b"id: 10\n")
        until(lambda: run.server.history.reads == 1)
        for position in range(11, 31):
            run.server.publish()
            reader.until(b"id: %d\n" % position)
        assert run.server.history.reads == 1


def test_heartbeat() -> None:
    """EV-5.7, SSE-04: each period a quiet stream carries a comment with its position, if events are filtered too."""
    with streaming(newest=7, sse_heartbeat=0.2) as run:
        reader = opened(run, query="?kind=nothing")
        reader.until(b"\n: 7\n: 7\n")
        run.server.publish()
        started = time.monotonic()
        reader.until(b"\n: 8\n")
        assert time.monotonic() - started < 5.0
        assert reader.ids == []


def test_heartbeat_counts_from_the_last_byte() -> None:
    """EV-5.7: while events come there is no comment."""
    heartbeat = 0.5
    with streaming(sse_heartbeat=heartbeat) as run:
        published = time.monotonic()
        reader = opened(run)
        newest, longest = 0, heartbeat
        # A machine that stands still makes a gap between two events: of that course nothing can be said.
        while longest >= heartbeat:
            assert newest < 1000, "no second without a gap"
            reader.data, longest = b"", 0.0
            for position in range(newest + 1, newest + 30):
                before, published = published, time.monotonic()
                run.server.publish()
                reader.until(b"id: %d\n" % position)
                longest = max(longest, time.monotonic() - before)
                time.sleep(0.03)
            newest = position
        assert not re.search(rb"\n: \d", reader.data)


def test_a_heartbeat_is_never_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-5.7, SSE-04: what of a comment did not fit into the socket is sent before the history that came meanwhile."""
    torn = threading.Event()
    real = send_some

    def some(sock: socket.socket, data: Any, flags: int) -> int:
        if bytes(data[:4]) == b": 0\n"[:4]:
            torn.set()
            return real(sock, data[:2], flags)
        return real(sock, data, flags)

    with streaming(newest=20, sse_heartbeat=0.2) as run:
        run.server.history.hold.clear()
        monkeypatch.setattr(stream_hub, "send_some", some)
        with Reader(run.server.server_address, "Last-Event-ID: 0") as reader:
            assert torn.wait(PATIENCE)
            run.server.history.hold.set()
            reader.until(b"id: 20\n")
            lines = reader.data.partition(b"\r\n\r\n")[2].split(b"\n")
            assert lines[:3] == [b": the stream is open", b": 0", b"id: 1"]
            assert reader.ids == list(range(1, 21))


def test_lifetime() -> None:
    """EV-5.7: after its time, and not before, a stream ends between two events, with an orderly close."""
    with streaming(sse_max_stream=1.0, sse_heartbeat=0.3) as run:
        started = time.monotonic()
        reader = opened(run)
        run.server.publish()
        reader.until(b"\n\n")
        data, how = ending(reader.sock)
        assert time.monotonic() - started >= 1.0
        assert how == "eof"
        assert data.replace(b": 1\n", b"") == b"", "nothing but heartbeats after the event"
        assert run.server.usage().sse_clients == 0


@pytest.mark.alone
def test_drain_says_goodbye() -> None:
    """EV-5.8: a drain ends every stream within 0.5 s with `shutting_down`, which has no id, resuming ones too."""
    with streaming(newest=300) as run:
        tail = opened(run)
        run.server.history.hold.clear()
        resuming = opened(run, "Last-Event-ID: 0")
        started = time.monotonic()
        run.server.begin_drain()
        for reader in (tail, resuming):
            assert reader.to_end().endswith(b"\n" + GOODBYE)
            assert reader.data.rpartition(b"event: ")[2].count(b"id:") == 0
        assert time.monotonic() - started < 0.5 + 0.4, "the bound, and the clients' own reading"
        run.server.history.hold.set()


def test_drain_carries_what_tells_of_it() -> None:
    """EV-5.8: an event that is published as the drain begins still arrives, before the goodbye."""
    with streaming() as run:
        reader = opened(run)
        run.core.observer = lambda what, facts: run.server.publish() if what == "drain.started" else None
        run.server.begin_drain()
        assert reader.to_end().endswith(b"x\n\n" + GOODBYE)
        assert reader.ids == [1]


def test_drain_that_is_late_says_goodbye_all_the_same() -> None:
    """EV-5.8: a loop that was held up past the time of both still says it, and cuts nobody who was told nothing."""
    with streaming() as run:
        reader = opened(run)
        run.core.observer = lambda what, _: time.sleep(2 * stream_hub.CUT_SECONDS) if what == "drain.started" else None
        run.server.begin_drain()
        assert reader.to_end().endswith(GOODBYE)


@pytest.mark.alone
def test_drain_cuts_who_does_not_read() -> None:
    """EV-5.8: a client that takes nothing holds the drain up for no more than 0.5 s."""
    with streaming() as run:
        stalled = opened(run, buffer=4096)
        run.server.publish(60, size=30_000)
        until(lambda: run.core.budget.used > 0)
        started = time.monotonic()
        run.server.begin_drain()
        until(lambda: run.server.usage().sse_clients == 0)
        assert time.monotonic() - started < 0.5 + 0.4, "the bound, and a busy machine's turns"
        assert ending(stalled.sock)[1] == "reset"


def test_drain_of_no_time() -> None:
    """EV-5.8, HS-9.2: with a drain_timeout of 0 the streams are told at once."""
    with streaming(drain_timeout=0.0) as run:
        reader = opened(run)
        run.server.server_close()
        assert reader.to_end().endswith(GOODBYE)


def test_the_streams_end_first() -> None:
    """HS-9.2, HS-9.3: in a drain the streams end, then what is in flight, and the listener last."""
    with streaming() as run:
        reader = opened(run)
        waiting = run.connect(get("/slow"))
        assert run.server.entered.acquire(timeout=PATIENCE)
        closing = threading.Thread(target=run.server.server_close)
        closing.start()
        assert reader.to_end().endswith(GOODBYE)
        assert run.ask(get("/slow")).code == "shutting_down"
        run.server.gate.set()
        assert waiting.recv(100).startswith(b"HTTP/1.0 200 ")
        closing.join(PATIENCE)
        with pytest.raises(OSError, match="refused"):
            run.connect()


def _leave(sock: socket.socket, how: str) -> None:
    if how == "half-close":
        sock.shutdown(socket.SHUT_WR)
    else:
        {"close": socket.socket.close, "reset": abort}[how](sock)


@pytest.mark.parametrize("leave", ["close", "half-close", "reset"])
def test_a_client_that_left_frees_its_place(leave: str) -> None:
    """EV-5.10, SSE-05: a client's end or a reset frees the place at once, on a quiet stream."""
    with streaming(max_sse_clients=1) as run:
        reader = opened(run)
        _leave(reader.sock, leave)
        until(lambda: run.server.usage().sse_clients == 0)
        opened(run)


@pytest.mark.parametrize("leave", ["close", "half-close", "reset"])
def test_nobody_is_refused_for_one_that_left(leave: str) -> None:
    """EV-5.6, EV-5.10: who left while the front was busy has freed its place before the next one is judged."""
    with streaming(max_sse_clients=1) as run:
        reader = opened(run)

        def left() -> None:
            run.server.meanwhile = None
            _leave(reader.sock, leave)

        run.server.meanwhile = left
        opened(run)
        statistics = run.front.hub.statistics()
        assert (statistics.open, statistics.opened_total, statistics.refused_total) == (1, 2, 0)
        assert run.ask(get("/events")).code == "too_many_streams"


def test_a_client_that_does_not_read() -> None:
    """EV-5.10, SSE-05: it is bounded in bytes and dropped, counted, and resumes without loss."""
    with streaming(request_timeout=0.5) as run:
        reader = opened(run, buffer=4096)
        run.server.publish()
        reader.until(b"id: 1\n")
        run.server.publish(300, size=30_000)
        until(lambda: run.front.hub.statistics().dropped_total == 1)
        assert run.server.usage().sse_clients == 0
        assert run.core.budget.used == 0
        reader.to_end()
        last = reader.whole_ids()[-1]
        again = opened(run, f"Last-Event-ID: {last}")
        again.until(b"id: 301\n")
        assert again.ids == list(range(last + 1, 302))


def test_unsent_bytes_are_bounded() -> None:
    """EV-5.10: whatever is published, a client that does not read costs 64 KiB and one event at most."""
    with streaming(max_sse_clients=8) as run:
        for _ in range(8):
            opened(run, buffer=4096)
        for _ in range(20):
            run.server.publish(50, size=20_000)
        streams = [connection.stream for connection in run.front.hub._streams]
        until(lambda: all(stream.unsent for stream in streams))
        assert len(streams) == 8
        kept = [stream.unsent.obj for stream in streams]  # a view keeps all that it is a view of
        assert max(map(len, kept)) <= 64 * 1024 + 21_000
        assert run.core.budget.used <= 8 * (64 * 1024 + 21_000)


def test_a_slow_reader_that_falls_behind_goes_on_from_history() -> None:
    """EV-5.10: who reads again after the window has moved on gets everything, in order."""
    with streaming() as run:
        reader = opened(run, buffer=4096)
        run.server.publish(400, size=20_000)
        until(lambda: run.core.budget.used > 0)
        assert run.front.hub._window.oldest > 100
        reader.until(b"id: 400\n")
        assert reader.ids == list(range(1, 401))


def test_a_slow_but_steady_reader_stays() -> None:
    """EV-5.10, HS-4.4: who takes something within request_timeout is not dropped, however slow."""
    with streaming(request_timeout=1.5) as run:
        reader = opened(run, buffer=4096)
        run.server.publish(30, size=20_000)
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            reader.data += reader.sock.recv(20_000)
            time.sleep(0.1)
        assert not closed_by_peer(reader.sock)
        assert run.front.hub.statistics().dropped_total == 0


def test_full_budget_drops_the_stream() -> None:
    """EV-5.10, HS-6.3: streams share the byte budget of all connections; without room one is dropped and resumes."""
    with streaming(max_buffered_bytes=2**20) as run:
        reader = opened(run, buffer=4096)
        run.core.budget.used += 2**20
        run.server.publish(60, size=30_000)
        until(lambda: run.front.hub.statistics().dropped_total == 1)
        run.core.budget.used -= 2**20
        reader.close()


def test_what_a_client_sends_is_discarded() -> None:
    """EV-5.11: bytes after the request are read and discarded; beyond 64 KiB the client is dropped."""
    with streaming() as run:
        reader = opened(run)
        reader.sock.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        run.server.publish()
        reader.until(b"id: 1\n")
        reader.sock.sendall(b"x" * 100_000)
        until(lambda: run.server.usage().sse_clients == 0)


def test_another_history_ends_the_streams() -> None:
    """EV-5.12: where the store was replaced every stream ends, and the next begins in the new one."""
    with streaming(newest=50) as run:
        reader = opened(run)
        run.server.history.messages = []
        run.server.feed.replace(Beginning(0, lambda position: f"new-{position}", "new"))
        reader.to_end()
        again = opened(run)
        assert again.fields["x-idkmesh-stream-position"] == "new-0"
        run.server.publish()
        again.until(b"id: 1\n")


def test_another_history_ends_a_stream_that_resumes() -> None:
    """EV-5.12: history that is read while the store is replaced is of nobody's any more."""
    with streaming(newest=50) as run:
        run.server.history.hold.clear()
        reader = opened(run, "Last-Event-ID: 10")
        until(lambda: run.server.history.reads == 1)
        run.server.feed.replace(Beginning(0, str, "new"))
        run.server.history.hold.set()
        reader.to_end()
        assert reader.ids == []


def test_a_position_judged_by_another_history_is_no_stream() -> None:
    """EV-5.12: where the store is replaced while a request is judged, its stream ends before its first event."""
    with streaming(newest=50) as run:
        run.server.meanwhile = lambda: run.server.feed.replace(Beginning(50, str, "new"))
        reader = opened(run, "Last-Event-ID: 10")
        reader.to_end()
        assert reader.ids == []


def test_a_stream_that_has_ended_keeps_nothing() -> None:
    """EV-5.10: what was kept for a stream is free at its end, without a garbage collection."""
    with streaming() as run:
        reader = opened(run)
        (connection,) = run.front.hub._streams
        reader.close()
        until(lambda: run.server.usage().sse_clients == 0)
        assert connection.stream is None


def test_a_burst_that_no_window_holds_ends_no_stream(caplog: pytest.LogCaptureFixture) -> None:
    """EV-5.10: where more was published than a server can take at once, streams go on from history."""
    with streaming() as run:
        idle, filtered = opened(run), opened(run, query="?kind=k0")
        with run.paused():
            for _ in range(3):
                run.server.publish(BACKLOG)
        idle.until(b"id: %d\n" % (3 * BACKLOG))
        filtered.until(b"id: %d\n" % (3 * BACKLOG))
        run.server.publish(2)
        idle.until(b"id: %d\n" % (3 * BACKLOG + 2))
        assert idle.ids == list(range(1, 3 * BACKLOG + 3))
        filtered.until(b"id: %d\n" % (3 * BACKLOG + 2))
        assert filtered.ids == list(range(2, 3 * BACKLOG + 3, 2))
        assert run.server.history.reads > 0


def test_streams_are_not_evicted() -> None:
    """EV-5.6, HS-8.1: at max_connections a stream gives way to nobody."""
    with streaming(max_connections=30, max_concurrent_requests=4) as run:
        readers = [opened(run) for _ in range(8)]
        for _ in range(60):
            run.connect(b"GET / HT")
        until(lambda: run.server.usage().evicted_total >= 20)
        run.server.publish()
        for reader in readers:
            reader.until(b"id: 1\n")


def test_access_line_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-13.3: a stream is one line of the access log, written when it ends, with what was sent."""
    monkeypatch.setenv("IDKMESH_HTTP_ACCESS_LOG", "1")
    with streaming() as run:
        reader = opened(run)
        run.server.publish()
        reader.until(b"x\n\n")
        assert run.log.about('"path":"/events"') == []
        reader.close()
        until(lambda: run.log.about('"path":"/events"'))
        (line,) = run.log.about('"path":"/events"')
        record = json.loads(line)
        assert (record["status"], record["bytes"]) == (200, len(reader.data))


def test_no_thread_for_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-5.9, HS-5.7: without a thread for history a stream that needs it ends, and a live one goes on."""
    with streaming(newest=10) as run:
        start = threading.Thread.start

        def refuse(self: threading.Thread) -> None:
            if self.name == "idkmesh-replay":
                raise RuntimeError("can't start new thread")
            start(self)

        tail = opened(run)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            opened(run, "Last-Event-ID: 0").to_end()
        until(lambda: run.log.about("streams that resume are ended"))
        run.server.publish()
        tail.until(b"id: 11\n")


def test_send_buffer_is_bounded() -> None:
    """EV-5.10: the kernel is asked to keep little for a stream, since by itself it keeps megabytes."""
    with streaming() as run:
        opened(run)
        (connection,) = run.front.hub._streams
        assert connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * SEND_BUFFER_BYTES


def test_over_tls() -> None:
    """EV-5.3, EV-5.8, HS-11.3: a stream over TLS resumes, carries large events, and ends with a close_notify."""
    with streaming(newest=300, ssl_context=server_context()) as run:
        reader = opened(run, "Last-Event-ID: 0", context=client_context())
        run.server.publish(40, size=30_000)
        reader.until(b"id: 340\n")
        assert reader.ids == list(range(1, 341))
        run.server.begin_drain()
        assert reader.to_end().endswith(GOODBYE)


def test_over_tls_a_client_that_does_not_read() -> None:
    """EV-5.10: it is dropped over TLS too, and one that reads late gets every byte in its place."""
    with streaming(ssl_context=server_context(), request_timeout=0.6) as run:
        late = opened(run, buffer=4096, context=client_context())
        opened(run, buffer=4096, context=client_context())
        run.server.publish(100, size=30_000)
        while b"id: 100\n" not in late.data or late.whole_ids()[-1] != 100:
            late.data += late.sock.recv(16_000)
        assert late.ids == list(range(1, 101))
        until(lambda: run.front.hub.statistics().dropped_total == 1)


def test_over_tls_a_slow_but_steady_reader_stays() -> None:
    """EV-5.10, HS-4.4: progress is seen over TLS too, where a socket takes a whole piece or nothing."""
    with streaming(ssl_context=server_context(), request_timeout=2.0) as run:
        reader = opened(run, buffer=4096, context=client_context())
        run.server.publish(30, size=20_000)
        end = time.monotonic() + 6.0
        while time.monotonic() < end:
            assert reader.sock.recv(3_000)
            time.sleep(0.1)
        assert run.front.hub.statistics().dropped_total == 0


ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
ROOT_FOLDER = Path(__file__).parents[2]
TOOLS = all(shutil.which(name) for name in ("ip", "unshare", "nsenter"))


@pytest.mark.skipif(not (ROOT and TOOLS), reason="network namespaces need root, iproute2 and util-linux")
def test_a_client_whose_network_is_gone() -> None:
    """EV-5.10, SSE-05: without an end or a reset the unacknowledged heartbeat frees the place in request_timeout."""
    program = [sys.executable, "-m", "tests.functional.silent_client"]
    done = subprocess.run(["unshare", "--net", *program], cwd=ROOT_FOLDER, check=True, capture_output=True, text=True)
    seconds, dropped = done.stdout.split()
    assert float(seconds) < 0.5 + 1.0 + 1.0 + 5.0, "heartbeat, request_timeout, one look, and a busy machine"
    assert dropped == "1"
