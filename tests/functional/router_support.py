"""``idkmesh router`` as a process, an agent as another, and the file of releases between them."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from idkmesh.topology.projection import PATH
from tests.functional.health_support import command, refused
from tests.functional.supervise_support import PATIENCE, Supervising, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "r0uter-token-of-the-test-suite-0123456789"
INVOCATIONS = "/agent/v1/invocations"
TARGET = {"agentId": "echo", "agentCardVersion": "1.0.0", "releaseId": "r1"}
RELEASE = "echo/1.0.0/r1"

AGENT = """\
import http.server, os, sys

class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Agent", str(os.getpid()))
        self.end_headers()
        self.wfile.write(b'{"echo":' + content + b"}")

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Answer(NamedTuple):
    status: int
    fields: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        document = self.json()
        assert (document["kind"], document["ok"]) == ("idkmesh-api-error", False)
        assert dict(self.fields)["Cache-Control"] == "no-store"
        found: dict[str, Any] = document["error"]
        return found

    @property
    def code(self) -> str:
        code: str = self.error["code"]
        return code


def ask(
    port: int, method: str, path: str, body: bytes | None = None, *, token: str | None = TOKEN, **fields: str
) -> Answer:
    """Send one request with the bearer, or without one."""
    head = {name.replace("_", "-"): value for name, value in fields.items()}
    if token is not None:
        head["Authorization"] = f"Bearer {token}"
    if body is not None:
        head.setdefault("Content-Type", "application/json")
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.request(method, path, body, head)
        answer = client.getresponse()
        return Answer(answer.status, answer.getheaders(), answer.read())


class Site:
    """The folder of one router: its configuration, its tokens, its file of releases."""

    def __init__(self, folder: Path, provider: str = "file: {path: releases.json}", more: str = "") -> None:
        self.folder = folder
        self.token_file = folder / "router.token"
        self.token_file.write_text(TOKEN + "\n")
        self.token_file.chmod(0o600)
        self.config = folder / "router.yaml"
        self.config.write_text(
            'schema_version: "0.1"\nkind: idkmesh-router\nlisten: 127.0.0.1:0\n'
            f"credentials: [{{id: acceptance, token_file: router.token}}]\nprovider: {{{provider}}}\n{more}"
        )
        self.releases = folder / "releases.json"
        self.declare({})

    def declare(self, releases: dict[str, list[str]]) -> None:
        """Put another file of releases in the place of the one that is there."""
        rows = []
        for release, endpoints in releases.items():
            agent, version, name = release.split("/")
            rows.append({"agentId": agent, "agentCardVersion": version, "releaseId": name, "endpoints": endpoints})
        document = {"schema_version": "0.1", "kind": "idkmesh-releases", "releases": rows}
        part = self.folder / "releases.part"
        part.write_text(json.dumps(document))
        part.replace(self.releases)


class Routing(Supervising):
    """A router that runs."""

    site: Site
    port: int

    def ask(self, method: str, path: str, body: bytes | None = None, **options: Any) -> Answer:
        return ask(self.port, method, path, body, **options)

    def invoke(self, value: Any = None, release: str = RELEASE, **options: Any) -> Answer:
        """Invoke a release with a value as input."""
        agent, version, name = release.split("/")
        body = {"agentId": agent, "agentCardVersion": version, "releaseId": name, "input": value}
        return self.ask("POST", INVOCATIONS, json.dumps(body).encode(), **options)

    def tower_port(self) -> int:
        """Return the port of the tower that it is in, which says so after its router."""
        line = re.compile(r"idkmesh control-tower \S+ listens on http://\S+:(\d+)\n")
        until(lambda: line.search("".join(self.announced)), self.announced)
        found = line.search("".join(self.announced))
        assert found is not None
        return int(found[1])

    def status(self) -> dict[str, Any]:
        answer = self.ask("GET", PATH)
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json()
        return found

    def observation(self, release: str = RELEASE) -> dict[str, Any]:
        """Return the row of one release."""
        names = ("agentId", "agentCardVersion", "releaseId")
        (row,) = (row for row in self.status()["observations"] if "/".join(row[name] for name in names) == release)
        found: dict[str, Any] = row
        return found

    def topology(self, *arguments: str) -> tuple[int, str, str]:
        """Run ``idkmesh topology`` on it."""
        where = (f"--url=http://127.0.0.1:{self.port}", f"--token-file={self.site.token_file}")
        return refused("topology", *arguments, *where)

    def wait_for(self, path: str, status: int) -> Answer:
        """Ask until the answer has this status."""
        deadline = time.monotonic() + PATIENCE
        while (answer := self.ask("GET", path, token=None)).status != status:
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)
        return answer


@contextlib.contextmanager
def routing(site: Site, *arguments: str, tower: bool = False, **env: str) -> Iterator[Routing]:
    """Run a router, alone or beside a control tower."""
    store = site.folder / "events.sqlite3"
    what = ("control-tower", "--port=0", f"--router={site.config}") if tower else ("router", f"--config={site.config}")
    process = command(*what, f"--store={store}", *arguments, cwd=site.folder, **env)
    service = Routing(process, store)
    service.site = site
    try:
        until(lambda: any("idkmesh router" in line for line in service.announced) or process.poll() is not None, what)
        found = re.search(r"idkmesh router \S+ listens on http://\S+:(\d+) ", "".join(service.announced))
        assert found, service.lines
        service.port = int(found[1])
        yield service
    finally:
        service.end(signal.SIGKILL)  # nothing to one that has ended


class AgentProcess(NamedTuple):
    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def agent() -> Iterator[AgentProcess]:
    """Run an agent that echoes, as a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", AGENT], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield AgentProcess(process, f"http://127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.kill()
        process.communicate()
