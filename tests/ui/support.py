"""A control tower that runs with a store of its own, and a browser that is watched for anything it complains of."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from idkmesh.control_tower_ui import ControlTowerServer
from idkmesh.events.envelope import Event
from idkmesh.health.self_watch import nothing_but_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Route

    from idkmesh.health.model import ProbeMatrix

TOKEN = "secret-token-of-the-test-suite-0123456789"
OTHER_TOKEN = "another-token-of-the-test-suite-987654321"
HEAD = f"Host: 127.0.0.1:%d\r\nX-IDKMesh-UI-Token: {TOKEN}\r\n"
WAIT = 30_000  # ms until a condition that a test waits for counts as missed
STARTED = 4
"""Events of the start of a tower that depends on nothing."""

# What Chromium writes to the console by itself when a request is refused or finds nobody.
REFUSED = r"Failed to load resource: the server responded with a status of (401|503)"
NOBODY = r"Failed to load resource: net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|SOCKET_NOT_CONNECTED)"
BROKEN = r"net::ERR_(INCOMPLETE_CHUNKED_ENCODING|CONNECTION_RESET|EMPTY_RESPONSE|ABORTED)"


class Tower:
    """A running server."""

    def __init__(self, server: ControlTowerServer) -> None:
        self.server = server
        self.link = server.link
        self.origin = server.origin
        self.port = server.server_port

    def emit(self, kind: str, data: Mapping[str, Any], *, subject: str | None = None, source: str = "/test") -> None:
        event = Event(type=kind, source=source, subject=subject, time=datetime.now(UTC), data=data)
        self.server.events._recorder.emit(event)

    @property
    def streams(self) -> int:
        return self.server.usage().sse_clients


@contextlib.contextmanager
def running(
    store: Path, *, port: int = 0, token: str = TOKEN, matrix: ProbeMatrix | None = None, **options: Any
) -> Iterator[Tower]:
    matrix = matrix or nothing_but_itself()
    server = ControlTowerServer(("127.0.0.1", port), token, store=store, matrix=matrix, **options)
    before = server.events.snapshot().newest
    thread = threading.Thread(target=server.serve_forever, name="tower-of-the-test")
    thread.start()
    try:
        deadline = time.monotonic() + WAIT / 1000
        while server.events.snapshot().newest < before + STARTED:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield Tower(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


@contextlib.contextmanager
def stream_held(tower: Tower) -> Iterator[None]:
    """Hold one stream."""
    with socket.create_connection(("127.0.0.1", tower.port), timeout=WAIT / 1000) as client:
        client.sendall(f"GET /api/v1/events/stream HTTP/1.1\r\n{HEAD % tower.port}\r\n".encode())
        assert b" 200 " in client.recv(4096)
        yield


class Watched:
    """A context of the browser. Whatever its pages complain of fails the test, unless it was allowed before."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self._allowed: list[str] = []
        self._complaints: list[str] = []
        context.on("page", self._watch)
        context.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('CSP ' + e.blockedURI))"
        )

    def allow(self, *patterns: str) -> None:
        self._allowed += patterns

    def _watch(self, page: Page) -> None:
        def said(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self._complaints.append(f"{message.text} {message.location.get('url', '')}".strip())

        def opened(dialog: Dialog) -> None:
            self._complaints.append(f"dialog {dialog.message}")
            dialog.dismiss()

        page.on("console", said)
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("dialog", opened)

    @property
    def complaints(self) -> list[str]:
        return [text for text in self._complaints if not any(re.search(pattern, text) for pattern in self._allowed)]

    def open(self, link: str) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(link)
        return page

    def ready(self, tower: Tower, route: str = "") -> Page:
        """Open the page with its token, wait until it is live, and go to a route."""
        page = self.open(tower.link)
        expect(page.locator("#verdict")).to_have_text(re.compile(r"^Ready(, with \d+ warnings?)?$"), timeout=WAIT)
        if route:
            page.evaluate("route => { location.hash = route }", f"#/{route}")
        return page


@contextlib.contextmanager
def watching(browser: Browser, **options: Any) -> Iterator[Watched]:
    """Give a context of its own, and fail for whatever its pages complained of."""
    context = browser.new_context(**options)
    watched = Watched(context)
    yield watched
    context.close()
    assert not watched.complaints, watched.complaints


def verdict(page: Page, text: str) -> None:
    expect(page.locator("#verdict")).to_have_text(text, timeout=WAIT)


def until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for what no locator tells, letting the browser work meanwhile."""
    deadline = time.monotonic() + WAIT / 1000
    while not condition():
        assert time.monotonic() < deadline
        page.wait_for_timeout(20)


def live(page: Page) -> None:
    """Wait until the page of events says that its stream is open."""
    expect(page.locator(".live")).to_have_text("Live", timeout=WAIT)


def changed_answers(page: Page, url: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Have each document that the page gets from ``url`` changed on its way."""

    def changed(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        change(document)
        route.fulfill(response=answer, json=document)

    page.route(url, changed)
