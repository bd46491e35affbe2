"""The servers under test: how each is started, what it needs, and which of its paths is measured."""

from __future__ import annotations

import importlib.util
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from . import app, messages, nginx
from .processes import HOST, StartError, end, environment, free_port, pinned, python
from .serve_peer import THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .messages import Headers

START_SECONDS = 15.0
PATHS = re.compile(r"/\S*/")
"""Left out of what is reported: results name no place of this machine."""
BASELINE = "ThreadingHTTPServer"


@dataclass(frozen=True)
class Program:
    """What every server of a comparison is to answer: sizes in bytes, the time of one piece of work, a folder."""

    body_bytes: int = 0
    large_bytes: int = 1 << 20
    work_seconds: float = 0.02
    files: str = "."

    def variables(self) -> dict[str, str]:
        """Return the environment variables that ``benchlib.app`` reads."""
        return {
            "BENCH_BODY_BYTES": str(self.body_bytes),
            "BENCH_LARGE_BYTES": str(self.large_bytes),
            "BENCH_WORK_SECONDS": str(self.work_seconds),
            "BENCH_FILES": self.files,
        }


@dataclass(frozen=True)
class Launch:
    """What a start command may use: a port, a directory that is removed afterwards, a session token."""

    port: int
    directory: Path
    token: str
    program: Program


@dataclass(frozen=True)
class Server:
    """A server under test. ``needs`` names modules and executables; ``path`` is measured, with the token if it asks."""

    name: str
    command: Callable[[Launch], list[str]]
    needs: tuple[str, ...] = ()
    path: str = "/"
    slow_path: str = "/"
    body_type: str = "application/octet-stream"
    large_path: str | None = "/large"
    takes_token: bool = False

    def missing(self) -> str | None:
        """Return why this server cannot be started here, or None."""
        absent = [name for name in self.needs if not shutil.which(name) and not _importable(name)]
        return f"not installed: {', '.join(absent)}" if absent else None


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@dataclass
class Running:
    """A started server."""

    server: Server
    port: int
    pid: int
    headers: Headers = field(default_factory=tuple)

    def check(self) -> messages.Response:
        """Fetch the measured path once; raises :class:`StartError` unless the answer is a complete 200."""
        try:
            response = messages.fetch(self.port, self.server.path, self.headers)
        except OSError as error:
            raise StartError(f"{self.server.name} does not answer: {error}") from error
        if response is None or response.status != 200 or not response.complete:
            raise StartError(f"{self.server.name} answered {response and response.status}, not a complete 200")
        return response


@contextmanager
def running(server: Server, core: int, program: Program | None = None) -> Iterator[Running]:
    """Run a server on one core for the length of a block; raises :class:`StartError` when it does not come up."""
    program = program or Program()
    if reason := server.missing():
        raise StartError(reason)
    with tempfile.TemporaryDirectory(prefix="idkmesh-bench-") as name:
        launch = Launch(free_port(), Path(name), secrets.token_urlsafe(32), program)
        log = launch.directory / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                pinned(core, server.command(launch)),
                cwd=launch.directory,
                env=environment(program.variables()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        headers = (("X-IDKMesh-UI-Token", launch.token),) if server.takes_token else ()
        try:
            started = Running(server, launch.port, process.pid, headers)
            _await(started, process, log)
            yield started
        finally:
            end(process)


def _await(started: Running, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            started.check()
        except StartError as error:
            if process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            reason = PATHS.sub("", last or str(error))
            raise StartError(f"did not start: {reason}"[:200]) from error
        return


def _peer(function: str) -> Callable[[Launch], list[str]]:
    return lambda launch: python("-m", "benchlib.serve_peer", function, str(launch.port))


def _gunicorn(launch: Launch) -> list[str]:
    bind = ["--bind", f"{HOST}:{launch.port}"]
    pool = ["--workers", "1", "--worker-class", "gthread", "--threads", str(THREADS)]
    return python("-m", "gunicorn", *bind, *pool, "--log-level", "warning", "benchlib.app:wsgi")


def _uvicorn(launch: Launch) -> list[str]:
    where = ["--host", HOST, "--port", str(launch.port)]
    quiet = ["--no-access-log", "--log-level", "warning"]
    return python("-m", "uvicorn", *where, "--loop", "uvloop", "--http", "httptools", *quiet, "benchlib.app:asgi")


def _granian(launch: Launch) -> list[str]:
    where = ["--host", HOST, "--port", str(launch.port)]
    pool = ["--interface", "wsgi", "--http", "1", "--workers", "1", "--blocking-threads", str(THREADS)]
    return python("-m", "granian", *where, *pool, "--log-level", "warning", "benchlib.app:wsgi")


def _nginx(launch: Launch) -> list[str]:
    body = app.document(launch.program.body_bytes)
    configuration = nginx.configure(launch.directory, launch.port, body, launch.program.large_bytes)
    return ["nginx", "-e", "stderr", "-p", str(launch.directory), "-c", str(configuration)]


def ours(form: str, *flags: str) -> Callable[[Launch], list[str]]:
    """Return the start of a bench program on this project's server; ``form`` and flags as ``serve_ours`` takes them."""
    return lambda launch: python("-m", "benchlib.serve_ours", form, *_session(launch), *flags)


def tower(*flags: str) -> Callable[[Launch], list[str]]:
    """Return the start of a control tower with a token of its own."""
    return lambda launch: python(
        "-m", "idkmesh", "control-tower", *_session(launch), "--store", str(launch.directory / "events.sqlite3"), *flags
    )


def _session(launch: Launch) -> list[str]:
    token_file = launch.directory / "token"
    token_file.write_text(launch.token, encoding="ascii")
    token_file.chmod(0o600)
    return ["--port", str(launch.port), "--token-file", str(token_file)]


def inline(*flags: str) -> Server:
    """Return the control tower, measured at a path that its front answers."""
    return Server("tower /readyz (inline)", tower(*flags), path="/readyz", large_path=None)


def status(*flags: str) -> Server:
    """Return the control tower, measured at the status document, which a worker makes."""
    return Server(
        "tower /api/v1/status",
        tower(*flags),
        path="/api/v1/status",
        slow_path="/api/v1/inspect/http-request",
        large_path=None,
        takes_token=True,
    )


def with_short_switch_interval(form: str) -> Server:
    """Return a library form whose program asks for the short interpreter switch interval."""
    return Server(f"{form}, short switch interval", ours(form, "--short-switch-interval"))


ROUTE = Server("route (worker)", ours("routes"), takes_token=True)
HANDLER = Server("handler class", ours("handler"))
WSGI = Server("WSGI callable", ours("wsgi"))

THREADING = Server(BASELINE, _peer("threading_http_server"))
WAITRESS = Server("waitress", _peer("waitress"), ("waitress",))
CHEROOT = Server("cheroot", _peer("cheroot"), ("cheroot",))
GUNICORN = Server("gunicorn gthread", _gunicorn, ("gunicorn",))
WERKZEUG = Server("werkzeug", _peer("werkzeug"), ("werkzeug",))
UVICORN = Server("uvicorn", _uvicorn, ("uvicorn", "httptools", "uvloop"))
GRANIAN = Server("Granian WSGI", _granian, ("granian",))
NGINX = Server("nginx", _nginx, ("nginx",))

FILES = Server("BoundedHTTPServer", ours("files"), path="/small")
THREADING_FILES = Server(BASELINE, _peer("threading_files"), path="/small")

PEERS = (THREADING, WAITRESS, CHEROOT, GUNICORN, WERKZEUG, UVICORN, GRANIAN, NGINX)
