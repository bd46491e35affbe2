"""Clients that nobody here wrote read the stream of events: a browser, two libraries, curl, and a proxy between."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import httpx
import httpx_sse
import pytest
import sseclient
from playwright.sync_api import sync_playwright

from idkmesh.httpd.responses import Response
from idkmesh.httpd.routes import Access, Route
from tests.functional.stream_support import StreamServer, streaming
from tests.functional.support import PATIENCE, Running, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator

curl = shutil.which("curl")
chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def url(run: Running) -> str:
    return f"http://127.0.0.1:{run.server.server_port}/events"


def position_in(data: str) -> int:
    """Return the position that the data of an event of the test begins with."""
    return int(data.partition(":")[0])


def publishing(run: Running, rounds: int = 10) -> threading.Thread:
    """Publish an event every few milliseconds, once a stream is open."""

    def publish() -> None:
        until(lambda: run.server.usage().sse_clients >= 1)
        for _ in range(rounds):
            run.server.publish()
            time.sleep(0.01)

    thread = threading.Thread(target=publish)
    thread.start()
    return thread


def test_httpx_sse() -> None:
    """EV-5.2, EV-5.3: httpx-sse sees each event once with its id, no comment as an event, and resumes."""
    with streaming(newest=30, sse_heartbeat=0.1) as run:
        seen: list[tuple[int, str, str]] = []
        with httpx.Client(timeout=PATIENCE) as client:
            for last, count in ((0, 40), (40, 10)):
                thread = publishing(run)
                headers = {"Last-Event-ID": str(last)}
                with httpx_sse.connect_sse(client, "GET", url(run), headers=headers) as source:
                    for event in source.iter_sse():
                        seen.append((position_in(event.data), event.id, event.event))
                        if len(seen) == last + count:
                            break
                thread.join(PATIENCE)
        assert seen == [(position, str(position), "message") for position in range(1, 51)]


def test_httpx_sse_sees_the_goodbye() -> None:
    """EV-5.8: the last event of a drain has its own name and the id of the event before it."""
    with streaming() as run, httpx.Client(timeout=PATIENCE) as client:
        with httpx_sse.connect_sse(client, "GET", url(run)) as source:
            events = source.iter_sse()
            run.server.publish()
            assert next(events).id == "1"
            run.server.begin_drain()
            last = list(events)
        assert [(event.event, event.id) for event in last] == [("shutting_down", "1")]


def test_sseclient_py() -> None:
    """EV-5.2, EV-5.3: sseclient-py reads history and what is published, each once."""
    with streaming(newest=30) as run:
        thread = publishing(run)
        request = urllib.request.Request(url(run), headers={"Last-Event-ID": "5"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            seen = []
            for event in sseclient.SSEClient(response).events():
                seen.append((event.id, position_in(event.data)))
                if event.id == "40":
                    break
        thread.join(PATIENCE)
        assert seen == [(str(position), position) for position in range(6, 41)]


@pytest.mark.skipif(curl is None, reason="curl is not installed")
def test_curl() -> None:
    """EV-5.1, EV-5.8: `curl -N` shows events as they come, and a drain ends it as a complete answer."""
    with streaming(newest=3) as run:
        command = [str(curl), "-sSN", "--max-time", "20", "-H", "Last-Event-ID: 0", url(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines: list[bytes] = []
            while b"id: 3\n" not in lines:
                lines.append(process.stdout.readline())
            run.server.publish()
            while b"id: 4\n" not in lines:
                lines.append(process.stdout.readline())
            run.server.begin_drain()
            rest = process.stdout.read()
        assert process.returncode == 0
        assert rest.endswith(b"event: shutting_down\ndata: {}\n\n")


class BrowserServer(StreamServer):
    """The stream with a page of its origin, and without a token: a browser's EventSource can send none."""

    newest = 25

    def _make_application(self) -> Any:
        application: Any = super()._make_application()
        page = Route(
            method="GET",
            path="/",
            access=Access.PAGE,
            endpoint=lambda _request, _body: Response(200, (), b"<!doctype html>", "text/html"),
            operation="page",
            summary="Page.",
            answers=(),
        )
        application._table._add("/", page)
        return application


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if chromium is None:
        pytest.skip("no Chromium here: scripts/test installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


LISTEN = """() => {
  window.seen = []; window.states = []; window.named = [];
  window.source = new EventSource("/events");
  source.onmessage = (event) => seen.push([Number(event.data.split(":")[0]), event.lastEventId]);
  source.onopen = () => states.push("open");
  source.onerror = () => states.push("error " + source.readyState);
  source.addEventListener("shutting_down", (event) => named.push(event.lastEventId));
}"""


def test_event_source_of_a_browser(browser: Any) -> None:
    """EV-5.2, EV-5.3, EV-5.7: Chromium's EventSource gets events live, and over a stream's end it misses none."""
    with running(None, server_class=BrowserServer, sse_max_stream=1.0, sse_heartbeat=0.2) as run:
        page = browser.new_page()
        page.goto(url(run).removesuffix("events"))
        page.evaluate(LISTEN)
        until(lambda: run.server.usage().sse_clients == 1)
        run.server.publish(5)
        until(lambda: page.evaluate("seen.length === 5"))
        # Its lifetime is over; the browser waits its own three seconds, and comes back with Last-Event-ID.
        until(lambda: page.evaluate("states.includes('error 0')"))
        run.server.publish(7)
        until(lambda: page.evaluate("seen.length === 12"))
        run.server.publish(2)
        until(lambda: page.evaluate("seen.length === 14"))
        assert page.evaluate("seen") == [[position, str(position)] for position in range(26, 40)]
        assert page.evaluate("states.filter((state) => state === 'open').length") >= 2
        page.close()


def test_event_source_sees_a_drain(browser: Any) -> None:
    """EV-5.8: the goodbye reaches a listener of its name, and moves no resume position."""
    with running(None, server_class=BrowserServer) as run:
        page = browser.new_page()
        page.goto(url(run).removesuffix("events"))
        page.evaluate(LISTEN)
        until(lambda: run.server.usage().sse_clients == 1)
        run.server.publish()
        until(lambda: page.evaluate("seen.length === 1"))
        run.server.begin_drain()
        until(lambda: page.evaluate("named.length === 1"))
        assert page.evaluate("named") == ["26"]
        page.close()


def proxy(target: tuple[str, int], listener: socket.socket) -> None:
    """Pass one exchange on as a buffering proxy does: whole, unless the answer says `X-Accel-Buffering: no`."""
    client, _ = listener.accept()
    with client, socket.create_connection(target, timeout=PATIENCE) as upstream:
        upstream.sendall(client.recv(65536))
        head = b""
        while b"\r\n\r\n" not in head:
            head += upstream.recv(65536)
        buffered = b"x-accel-buffering: no" not in head.lower()
        held = head
        while True:
            if not buffered:
                client.sendall(held)
                held = b""
            more = upstream.recv(65536)
            if not more:
                break
            held += more
        client.sendall(held)


def test_through_a_proxy_that_buffers() -> None:
    """EV-5.1, SSE-13: a proxy that honours X-Accel-Buffering passes each event on at once; compression is not begun."""
    with streaming() as run, socket.create_server(("127.0.0.1", 0)) as listener:
        between = threading.Thread(target=proxy, args=(run.server.server_address, listener))
        between.start()
        with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as client:
            client.sendall(b"GET /events HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n")
            data = b""
            while b"the stream is open" not in data:
                data += client.recv(65536)
            assert b"content-encoding" not in data.lower()
            for position in range(1, 6):
                run.server.publish()
                while b"id: %d\n" % position not in data:
                    data += client.recv(65536)
            run.server.begin_drain()
            while client.recv(65536):
                pass
        between.join(PATIENCE)
