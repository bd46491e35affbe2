"""Takes the pictures of ``docs/images/``: a real control tower, to which real things happen, in a real browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from playwright.sync_api import expect, sync_playwright

from scripts.lib.chromium import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, ViewportSize

DIRECTORY = Path(__file__).parents[2] / "docs" / "images"
TOKEN = "the-token-of-the-pictures-0123456789"  # noqa: S105  it opens a service that lives for a minute
PLACES = 4
WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 740}
MOST_BYTES = 150_000


@contextlib.contextmanager
def control_tower(folder: Path, *more: str) -> Iterator[str]:
    """Run the command with a store in ``folder`` and more arguments, and give its origin."""
    environment = os.environ | {"IDKMESH_CONTROL_TOWER_TOKEN": TOKEN}
    command = [
        sys.executable,
        "-m",
        "idkmesh",
        "control-tower",
        "--port",
        "0",
        "--store",
        str(folder / "events.sqlite3"),
    ]
    limits = ["--max-concurrent-requests", str(PLACES)]
    with subprocess.Popen([*command, *limits, *more], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            said = (line.split() for line in process.stdout or ())
            yield next(words[-1] for words in said if words[1] == "control-tower")  # a router is announced before
        finally:
            process.terminate()
            process.wait(20)


def ask(origin: str, line: str, body: bytes = b"", token: str = TOKEN) -> bytes:
    """Send one request and return the first line of the answer."""
    host = origin.removeprefix("http://")
    name, _, port = host.rpartition(":")
    kind = f"Content-Type: message/http\r\nContent-Length: {len(body)}\r\n" if body else ""
    head = f"{line} HTTP/1.1\r\nHost: {host}\r\nX-IDKMesh-UI-Token: {token}\r\n{kind}\r\n"
    with socket.create_connection((name, int(port)), timeout=10) as client:
        client.sendall(head.encode() + body)
        answer = client.makefile("rb").readline()
        while client.recv(65536):
            pass
    return answer


def be_busy(origin: str, ended: threading.Event) -> None:
    """Ask now and then, as a few programs would."""
    while not ended.wait(0.05):
        for _ in range(3):
            with contextlib.suppress(OSError):
                ask(origin, "GET /api/v1/openapi.json")


def overload(origin: str) -> None:
    """Ask for more at once than there are places, until a request is refused for it."""
    refused = threading.Event()
    body = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(90)) + b"\r\n"

    def press() -> None:
        for _ in range(200):
            with contextlib.suppress(OSError):
                if b" 503 " in ask(origin, "POST /api/v1/inspect/http-request", body):
                    refused.set()
            if refused.is_set():
                return

    clients = [threading.Thread(target=press) for _ in range(8 * PLACES)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def happen(origin: str) -> None:
    """Do what leaves refusals and events."""
    for line in ("GET /nowhere", "GET /api/v1/nothing", "DELETE /api/v1/status", "GET /api/v1/events?limit=0"):
        ask(origin, line)
    ask(origin, "GET /api/v1/status", token="x" * 40)
    overload(origin)


def pictures(page: Page, origin: str, scheme: str) -> None:
    """Take each page."""
    page.goto(f"{origin}/#/overview")
    take(page, f"overview-{scheme}")
    page.goto(f"{origin}/#/events")
    page.locator(".event", has_text="Limit met").first.click()
    expect(page.get_by_role("complementary")).to_contain_text("datadigest")
    take(page, f"events-{scheme}")
    page.goto(f"{origin}/#/inspect")
    page.get_by_role("button", name="Two hosts").click()
    expect(page.locator("#offending")).to_be_visible()
    take(page, f"inspect-{scheme}")
    page.goto(f"{origin}/#/api")
    page.locator("summary", has_text="/api/v1/events/stream").click()
    page.locator(".trial").get_by_role("button", name="Ask now").click()
    expect(page.locator(".outcome")).to_be_visible()
    take(page, f"api-{scheme}")


def probe_matrix(folder: Path, port: int) -> dict[str, Any]:
    """Return a matrix of things that are here: a port, files, a command."""
    figures = {"period_ms": 3000, "timeout_ms": 1000, "failure_threshold": 3}
    often = {"timeout_ms": 900, "interval_ms": 1000, "cache_ms": 4000}
    asleep = (
        "import os, sys, time; time.sleep(os.urandom(1)[0] / 2000); sys.exit(0 if os.path.exists(sys.argv[1]) else 3)"
    )
    ping = [sys.executable, "-S", "-E", "-c", asleep, str(folder / "cache")]
    rows: list[dict[str, Any]] = [
        {
            "name": "orders-db",
            "critical": True,
            "probe": {"tcp": {"host": "127.0.0.1", "port": port}},
            "success_threshold": 2,
        },
        {"name": "cache", "critical": False, "probe": {"command": {"argv": ping}}, "failure_threshold": 3},
        {"name": "lease", "critical": True, "probe": {"file": {"path": str(folder / "lease")}}},
        {"name": "metrics-push", "critical": False, "probe": {"command": {"argv": ["metrics-push", "--check"]}}},
        {"name": "disk-room", "critical": True, "probe": {"disk": {"path": str(folder), "min_free_percent": 1}}},
    ]
    return {
        "schema_version": "0.1",
        "kind": "idkmesh-probe-matrix",
        "orchestrator": {"startup": figures, "liveness": figures, "readiness": figures},
        "watchdog": {"interval_ms": 1000, "max_missed_ticks": 5},
        "dependencies": [often | each for each in rows],
    }


def dependencies(browser: Browser, folder: Path) -> None:
    """Take the page of dependencies, with one that has failed."""
    folder.mkdir()
    for name in ("cache", "lease"):
        (folder / name).touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        matrix = folder / "probe-matrix.yaml"
        matrix.write_text(json.dumps(probe_matrix(folder, listener.getsockname()[1])), encoding="utf-8")
        with control_tower(folder, "--matrix", str(matrix)) as origin:
            threading.Event().wait(40)  # a history to look at
            listener.close()
            (folder / "cache").unlink()
            threading.Event().wait(6)
            looks(browser, origin, ("dependencies", "orders-db"), verdict="Not ready", rows=(".dependency", 5))


def declaration(folder: Path) -> dict[str, Any]:
    """Return modules of local processes, each ready while a file of its name is there."""
    argv = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(3600)"]
    kinds = {
        "shop": ("stateless", 3),
        "mailer": ("stateless", 2),
        "scheduler": ("singleton", 1),
        "ledger": ("stateful", 1),
    }
    return {
        "schema_version": "0.1",
        "kind": "idkmesh-modules",
        "supervisor": {"interval_s": 2, "cooldown_s": 300, "lease": {"sqlite": {}}},
        "modules": [
            {
                "name": name,
                "kind": kind,
                "driver": "process",
                "replicas": replicas,
                "process": {"argv": argv, "cwd": str(folder)},
                "readiness": {"command": ["/usr/bin/test", "-f", name], "timeoutSecs": 3},
            }
            for name, (kind, replicas) in kinds.items()
        ],
    }


def workloads(browser: Browser, folder: Path) -> None:
    """Take the page of workloads: a replica on its way to a restart, and a singleton of which it is only told."""
    folder.mkdir()
    file = folder / "modules.yaml"
    file.write_text(json.dumps(declaration(folder)), encoding="utf-8")
    for name in ("shop", "mailer", "scheduler", "ledger"):
        (folder / name).touch()
    with control_tower(folder, "--modules", str(file)) as origin:
        threading.Event().wait(30)  # healthy after 20 s
        for name in ("mailer", "scheduler"):
            (folder / name).unlink()
        threading.Event().wait(45)  # unhealthy after 20 s, restarted after 80 s
        looks(browser, origin, ("workloads", "mailer"), verdict="Ready", rows=(".module", 4))


RELEASES = ("echo/1.0.0/r1", "search/2.1.0/blue", "search/2.1.0/green", "billing/0.9.3/r14", "mailer/1.4.0-rc.2/canary")


class Agent(BaseHTTPRequestHandler):
    """Answers every invocation with nothing."""

    def do_POST(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Router:
    """A router beside a tower: its configuration, its file of releases, and who uses it."""

    def __init__(self, folder: Path, agent: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.config = folder / "router.yaml"
        self._releases = folder / "releases.json"
        self._agent = f"http://127.0.0.1:{agent}"
        token = folder / "router.token"
        token.touch(0o600)
        token.write_text(TOKEN, encoding="utf-8")
        self.config.write_text(
            f'schema_version: "0.1"\nkind: idkmesh-router\nlisten: 127.0.0.1:{self.port}\n'
            "credentials: [{id: control-plane, token_file: router.token}]\n"
            "provider: {file: {path: releases.json}}\n",
            encoding="utf-8",
        )
        self.declare()

    def declare(self, empty: str = "", missing: str = "") -> None:
        """Put a file with these releases in the place of the one that is there."""
        rows = []
        for release in RELEASES:
            agent, version, name = release.split("/")
            row = {"agentId": agent, "agentCardVersion": version, "releaseId": name}
            rows += [row | {"endpoints": [self._agent] * (release != empty)}] * (release != missing)
        document = {"schema_version": "0.1", "kind": "idkmesh-releases", "releases": rows}
        part = self._releases.with_suffix(".part")
        part.write_text(json.dumps(document), encoding="utf-8")
        part.replace(self._releases)

    def lose(self) -> None:
        """Take the file away."""
        self._releases.unlink()

    def invoke(self, release: str) -> None:
        """Use a release."""
        agent, version, name = release.split("/")
        body = {"agentId": agent, "agentCardVersion": version, "releaseId": name, "input": {}}
        head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as client:
            client.request("POST", "/agent/v1/invocations", json.dumps(body), head)
            client.getresponse().read()


def topology(browser: Browser, folder: Path) -> None:
    """Take the page of the topology: a provider that was lost, a release that was emptied, two that are not ready."""
    folder.mkdir()
    wait = threading.Event().wait
    with HTTPServer(("127.0.0.1", 0), Agent) as agent:
        threading.Thread(target=agent.serve_forever, daemon=True).start()
        router = Router(folder, agent.server_port)
        with control_tower(folder, "--router", str(router.config)) as origin:
            wait(2)
            for release in RELEASES:
                router.invoke(release)
            wait(9)
            router.lose()
            wait(6)
            router.declare()
            wait(9)
            router.declare(empty="search/2.1.0/blue", missing="mailer/1.4.0-rc.2/canary")
            wait(6)
            router.declare(empty="billing/0.9.3/r14", missing="mailer/1.4.0-rc.2/canary")
            wait(4)
            for release in ("search/2.1.0/blue", "billing/0.9.3/r14", "search/2.1.0/blue"):
                router.invoke(release)
            looks(browser, origin, ("topology", "search/2.1.0/blue"), verdict="Ready", rows=(".release", len(RELEASES)))
        agent.shutdown()


class Moment(NamedTuple):
    """A picture of the demo: ``page`` shows ``wanted`` so many seconds after the demo has said ``said``."""

    said: str
    seconds: float
    page: str
    wanted: str
    name: str


MOMENTS = (
    Moment("the adapter says not ready: seen", 2, "overview", "is not ok", "overview"),
    Moment("the adapter says not ready: seen", 2, "dependencies", "adapter", "dependencies"),
    Moment("requests are refused as overloaded: seen", 3, "overview", "overloaded", "flood"),
    Moment("no connection is free: seen", 3, "overview", "nearly full", "ingress"),
    Moment("the adapter says not live: seen", 2, "dependencies", "No answer", "pause"),
    Moment("web-2 is unhealthy: seen", 35, "workloads", "then restarted", "wedge"),
)
"""What README and tutorial show, in the order of the demo's schedule."""


def demo(browser: Browser) -> None:
    """Take what README and tutorial show of the demo, while things go wrong in it by its own schedule."""
    command = [sys.executable, "-m", "idkmesh", "demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = iter(process.stdout or ())
            link = next(line for line in said if line.startswith("open "))
            origin, file = re.findall(r"^open (\S+)/ with the token in (\S+)$", link)[0]
            context = browser.new_context(viewport=WIDE, color_scheme="light")
            page = context.new_page()
            next(line for line in said if "all parts are well" in line)
            page.goto(f"{origin}/#token={Path(file).read_text(encoding='ascii').strip()}")
            heard = ""
            for moment in MOMENTS:
                page.goto(f"{origin}/#/{moment.page}")  # before it: a page that is opened in a pause shows nothing
                if moment.said not in heard:
                    heard = next(line for line in said if moment.said in line)
                page.wait_for_timeout(moment.seconds * 1000)
                expect(page.locator("body")).to_contain_text(moment.wanted)
                take(page, f"demo-{moment.name}")
            context.close()
        finally:
            process.terminate()
            process.communicate(timeout=60)


def looks(browser: Browser, origin: str, route: tuple[str, str], *, verdict: str, rows: tuple[str, int]) -> None:
    """Take a page of lists in light, in dark with one open, and narrow, once it shows its rows."""
    page_name, opened = route
    for look, path, size in (
        ("light", page_name, WIDE),
        ("dark", f"{page_name}/{opened}", WIDE),
        ("narrow", page_name, NARROW),
    ):
        context = browser.new_context(viewport=size, color_scheme="dark" if look == "dark" else "light")
        page = context.new_page()
        page.goto(f"{origin}/#token={TOKEN}")
        expect(page.locator("#verdict")).to_have_text(verdict, timeout=10_000)
        page.goto(f"{origin}/#/{path}")
        expect(page.locator(rows[0])).to_have_count(rows[1])
        page.wait_for_timeout(1500)
        take(page, f"{page_name}-{look}")
        context.close()


def take(page: Page, name: str) -> None:
    """Write one picture of what the window shows."""
    page.mouse.move(0, 0)
    path = DIRECTORY / f"{name}.png"
    page.screenshot(path=path, animations="disabled")
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{path.name} is larger than {MOST_BYTES:,} bytes")


def tower(browser: Browser, origin: str) -> None:
    """Take the pages of one that watches itself: each in light and dark, the overview narrow too."""
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport=WIDE, color_scheme="dark" if scheme == "dark" else "light")
        page = context.new_page()
        page.goto(f"{origin}/#token={TOKEN}")
        expect(page.locator("#verdict")).to_have_text("Ready", timeout=10_000)
        happen(origin)
        expect(page.locator(".latest")).to_contain_text("Limit free again", timeout=30_000)
        page.wait_for_timeout(40_000)  # a history to look at
        pictures(page, origin, scheme)
        context.close()
    context = browser.new_context(viewport=NARROW, color_scheme="light")
    page = context.new_page()
    page.goto(f"{origin}/#token={TOKEN}")
    expect(page.locator("#verdict")).to_have_text("Ready", timeout=10_000)
    page.wait_for_timeout(10_000)
    take(page, "overview-narrow")
    context.close()


def all_but_the_demo(browser: Browser) -> None:
    """Take the pages of control towers to which one thing each happens."""
    ended = threading.Event()
    with tempfile.TemporaryDirectory() as folder, control_tower(Path(folder)) as origin:
        busy = threading.Thread(target=be_busy, args=(origin, ended))
        busy.start()
        try:
            tower(browser, origin)
            dependencies(browser, Path(folder) / "dependencies")
            workloads(browser, Path(folder) / "workloads")
            topology(browser, Path(folder) / "topology")
        finally:
            ended.set()
            busy.join()


def main() -> None:
    """Write all pictures, or, with the argument ``demo``, those of the demo."""
    try:
        path = chromium()
    except FileNotFoundError as error:
        sys.exit(f"screenshots: {error}")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            if sys.argv[1:] != ["demo"]:
                all_but_the_demo(browser)
            demo(browser)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
