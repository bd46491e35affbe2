"""The four probe paths of any WSGI program: what they answer, what is left to the program, and life across a fork."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import flask
import pytest

import idkmesh
from idkmesh.health.answers import PROBE_PATHS, draining_answer, liveness_answer, startup_answer
from idkmesh.health.middleware import HealthMiddleware
from idkmesh.health.model import Disk, File, Python, Refresh
from idkmesh.health.readiness import Readiness
from idkmesh.health.service import PROBES
from idkmesh.health.watchdog import Watchdog
from idkmesh.httpd.refusals import DENIED
from idkmesh.httpd.responses import error_document, json_body
from idkmesh.service_runtime import Denial, ServiceIdentity
from tests.events.support import ROOT
from tests.health.matrices import EXAMPLE
from tests.health.support import dependency, matrix_of, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from idkmesh.health.model import ProbeMatrix

    Make = Callable[..., HealthMiddleware]

QUICK: dict[str, Any] = {"timeout_ms": 5000, "interval_ms": 50, "cache_ms": 20_000}
ALWAYS = Disk(path="/", min_free_bytes=1)
JSON_PATHS = ("/readyz", "/startupz")


class Answer(NamedTuple):
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


def program(environ: Any, start_response: Any) -> Iterable[bytes]:
    """Answer everything, so that what is asked of it shows."""
    body = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}".encode()
    start_response("299 Mine", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def ask(app: Any, path: str, method: str = "GET") -> Answer:
    """Ask as a server does; wsgiref's validator holds both sides to PEP 3333."""
    environ: dict[str, Any] = {"SCRIPT_NAME": "", "PATH_INFO": path, "REQUEST_METHOD": method, "QUERY_STRING": ""}
    setup_testing_defaults(environ)
    seen: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, fields: list[tuple[str, str]], exc_info: object = None) -> Any:
        seen.append((status, fields))

    answered = validator(app)(environ, start_response)
    body = b"".join(answered)
    answered.close()  # type: ignore[attr-defined]  # the validator wants it, as PEP 3333 does
    ((status, fields),) = seen
    return Answer(int(status.split()[0]), dict(fields), body)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file that is there: a dependency that is well until the file is removed."""
    path = tmp_path / "dependency"
    path.touch()
    return path


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a function that makes a middleware, which is closed in the end with nothing left."""
    made: list[HealthMiddleware] = []

    def make(matrix: ProbeMatrix, watchdog: Watchdog | None = None, **more: Any) -> HealthMiddleware:
        made.append(HealthMiddleware(program, matrix, watchdog, **more))
        return made[-1]

    yield make
    for middleware in made:
        assert middleware.close()


def file_matrix(path: Path, **more: Any) -> ProbeMatrix:
    return matrix_of(dependency("db", probe=File(path=str(path)), **(QUICK | more)))


# --- what is answered ------------------------------------------------------------------------------------------------


def test_a_life(make: Make, file: Path) -> None:
    """HL-1.1 to HL-1.3, HL-5.1, HL-5.2: starting, ready, not ready by a name, and back; liveness and startup stay."""
    app = make(file_matrix(file))
    first = app._answer("/readyz")  # before the first request has begun it
    assert (first.status, json.loads(first.body)["status"], json.loads(first.body)["failing"]) == (
        503,
        "starting",
        ["db"],
    )
    assert ask(app, "/healthz").body == b"ok"
    until(lambda: ask(app, "/readyz").status == 200, "it has not become ready")
    assert ask(app, "/readyz").document["failing"] == []
    file.unlink()
    until(lambda: ask(app, "/readyz").status == 503, "the outage is not noticed")
    down = ask(app, "/readyz")
    assert (down.document["status"], down.document["failing"], down.fields["Retry-After"]) == ("not_ready", ["db"], "1")
    assert {ask(app, path).status for path in ("/healthz", "/livez", "/startupz")} == {200}
    file.touch()
    until(lambda: ask(app, "/readyz").status == 200, "it has not come back")
    assert "Retry-After" not in ask(app, "/readyz").fields


def test_a_noncritical_failure_is_a_warning(make: Make, file: Path) -> None:
    """HL-1.2: it is ready, and the dependency is named."""
    file.unlink()
    app = make(file_matrix(file, critical=False))
    until(lambda: ask(app, "/readyz").status == 200, "it has not become ready")
    assert (ask(app, "/readyz").document["failing"], ask(app, "/readyz").document["warnings"]) == ([], ["db"])


def test_startup_while_a_dependency_is_down(make: Make, file: Path) -> None:
    """HL-1.3: startup succeeds once each probe has run, whatever came of it."""
    file.unlink()
    app = make(file_matrix(file))
    assert json.loads(app._answer("/startupz").body)["status"] == "starting"  # before the first request has begun it
    until(lambda: ask(app, "/startupz").status == 200, "it has not started")
    assert ask(app, "/startupz").document["failing"] == []
    assert ask(app, "/readyz").document["status"] == "not_ready"


def test_a_silent_component_of_the_program(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """HL-1.2, HL-2.2, HL-5.4, HL-6.1: the program's own watchdog stands behind both, and a line names who is silent."""
    watchdog = idkmesh.Watchdog(3.0)
    beat = watchdog.register("consumer", 0.05)
    app = make(matrix_of(), watchdog)
    until(lambda: ask(app, "/livez").status == 503, "the silence is not noticed")
    assert (ask(app, "/livez").body, ask(app, "/healthz").status) == (b"stalled", 503)
    until(lambda: ask(app, "/readyz").document["status"] == "not_ready", "who is not alive is ready")
    assert ask(app, "/readyz").document["failing"] == ["process_watchdog"]
    assert ask(app, "/startupz").status == 200
    until(lambda: "stalled: consumer silent for too long" in caplog.messages, "nobody learns who is silent")
    beat.close()
    assert (ask(app, "/livez").body, ask(app, "/readyz").status) == (b"ok", 200)
    until(lambda: "no longer stalled: consumer" in caplog.messages, "nobody learns that it is over")


def test_the_runner_is_watched(make: Make) -> None:
    """HL-2.2: the probes' runner is registered with the watchdog, and is no more once it is closed."""
    watchdog = Watchdog(3.0)
    app = make(matrix_of(), watchdog)
    app.start()
    assert app.watchdog is watchdog
    assert list(watchdog.silences(0.0)) == [PROBES]
    assert app.close()
    assert list(watchdog.silences(0.0)) == []


def test_a_drain(make: Make) -> None:
    """CT-4.4, HL-1.2: from its first moment readiness and startup are the server's own envelope; liveness holds."""
    app = make(matrix_of())
    assert ask(app, "/readyz").status == 200
    app.drain()
    expected = json_body(error_document(DENIED[Denial.DRAINING]))
    for path in JSON_PATHS:
        answer = ask(app, path)
        assert (answer.status, answer.body, answer.fields["Retry-After"]) == (503, expected, "1")
    assert ask(app, "/livez").body == b"ok"
    assert ask(app, "/page").body == b"GET /page"


def test_answers_name_the_service(make: Make) -> None:
    """CT-4.3: the members of the tower's answer, and the name that the program has given itself."""
    app = make(matrix_of(), identity=ServiceIdentity(service="cart", service_version="1.2"))
    assert ask(app, "/readyz").document == {
        "status": "ready",
        "failing": [],
        "failing_total": 0,
        "warnings": [],
        "warnings_total": 0,
        "service": "cart",
        "service_version": "1.2",
        "mode": "local",
        "api_version": "v1",
    }


def test_answers_are_values() -> None:
    """HL-1.3, HL-2.2, HL-5.2: what each state is answered with."""
    identity = ServiceIdentity(service="s", service_version="1")
    assert (liveness_answer(alive=False).status, liveness_answer(alive=False).body) == (503, b"stalled")
    assert draining_answer().status == 503
    assert startup_answer(identity, Readiness("not_ready", ("a",))).status == 200
    assert startup_answer(identity, Readiness("starting", ("a",))).status == 503


def test_a_verdict_is_written_out_once(make: Make) -> None:
    """HL-5.1: an answer costs the same however many names it lists, since it is kept while the verdict holds."""
    rows = [dependency(f"d{number}", probe=ALWAYS, **QUICK) for number in range(3)]
    app = make(matrix_of(*rows))
    app.start()
    until(lambda: ask(app, "/readyz").status == 200, "it has not become ready")
    assert app._answer("/readyz") is app._answer("/readyz")


# --- what is left to the program --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(PROBE_PATHS))
def test_methods(make: Make, path: str) -> None:
    """HL-6.1, CT-3.4: GET and HEAD are answered, with the same fields; every other method is the program's."""
    app = make(matrix_of())
    got, head = ask(app, path), ask(app, path, "HEAD")
    assert (head.status, head.fields, head.body) == (got.status, got.fields, b"")
    assert int(got.fields["Content-Length"]) == len(got.body) > 0
    assert (got.fields["Cache-Control"], got.fields["X-Content-Type-Options"]) == ("no-store", "nosniff")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(app, path, method).body == f"{method} {path}".encode()


@pytest.mark.parametrize("path", ["/", "/healthz/", "/readyz/x", "/api/readyz", "/READYZ", "/metrics", "//readyz"])
def test_other_paths(make: Make, path: str) -> None:
    """HL-6.1: no path is taken but the four."""
    answer = ask(make(matrix_of()), path)
    assert (answer.status, answer.body) == (299, f"GET {path}".encode())


# --- when it probes ---------------------------------------------------------------------------------------------------


def test_any_request_begins(make: Make, file: Path) -> None:
    """HL-6.1: the first request begins the probing, whatever it asks for; before that nothing runs."""
    watchdog = Watchdog(3.0)
    app = make(file_matrix(file), watchdog)
    assert watchdog.silences(0.0) == {}
    assert ask(app, "/page").status == 299
    until(lambda: ask(app, "/readyz").status == 200, "the probes do not run")


def test_many_at_once_begin_one_runner(make: Make, file: Path) -> None:
    """HL-6.1: however many first requests come at once, there is one runner, and each is answered."""
    app = make(file_matrix(file))
    gate = threading.Barrier(12)
    answers: list[Answer] = []

    def client(number: int) -> None:
        gate.wait()
        answers.append(ask(app, "/readyz" if number % 2 else "/page"))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {200, 299, 503}
    assert len(answers) == 12
    assert sum(thread.name == "health-scheduler" for thread in threading.enumerate()) == 1


def test_start_and_close(make: Make, file: Path) -> None:
    """HL-6.1: starting twice changes nothing; what is closed drains, serves the program, and does not begin again."""
    before = set(threading.enumerate())
    app = make(file_matrix(file))
    app.start()
    app.start()
    until(lambda: ask(app, "/readyz").status == 200, "it has not become ready")
    assert app.close()
    assert app.close()
    assert set(threading.enumerate()) == before
    assert ask(app, "/readyz").document["error"]["code"] == "shutting_down"
    assert ask(app, "/page").status == 299
    assert set(threading.enumerate()) == before
    with pytest.raises(RuntimeError, match="make another"):
        app.start()


def test_closed_before_it_began(make: Make) -> None:
    """HL-6.1: closing what has not begun leaves it closed."""
    app = make(matrix_of())
    assert app.close()
    assert ask(app, "/readyz").status == 503
    assert app._service is None


def test_a_fault_of_starting_is_not_the_programs(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """HL-2.5, HL-6.1: the program is served, readiness says no, and one line says why; the next probe tries again."""
    watchdog = Watchdog(3.0)
    taken = watchdog.register(PROBES)
    app = make(matrix_of(dependency("db", probe=ALWAYS, **QUICK)), watchdog)
    assert ask(app, "/page").status == 299
    for _ in range(3):
        assert ask(app, "/readyz").document["status"] == "starting"
        assert ask(app, "/page").status == 299
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "probes is registered already" in caplog.text
    taken.close()
    until(lambda: ask(app, "/readyz").status == 200, "it is not tried again")


def test_no_thread_to_be_had(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-2.5: a start that fails leaves no component behind, whose silence would fail liveness."""
    watchdog = Watchdog(3.0)
    app = make(matrix_of(), watchdog)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            app.start()
        assert ask(app, "/livez").body == b"ok"
    assert watchdog.silences(0.0) == {}
    app.start()
    assert list(watchdog.silences(0.0)) == [PROBES]


def test_a_request_asks_for_what_has_expired(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.6: with `refresh: request` a probe runs again when `/readyz` finds too old a result; for no other path."""
    (tmp_path / "counted_probe.py").write_text("runs = []\ndef probe():\n    runs.append(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    probe = Python(target="counted_probe:probe")
    row = dependency("db", probe=probe, refresh=Refresh.REQUEST, **(QUICK | {"cache_ms": 60}))
    app = make(matrix_of(row))
    app.start()
    until(lambda: getattr(sys.modules.get("counted_probe"), "runs", []), "it does not run at the start")
    until(lambda: ask(app, "/livez").status == 200 and ask(app, "/startupz").status == 200, "it has not started")
    expired = app._service
    assert expired is not None
    until(lambda: expired.readiness().status == "not_ready", "the result does not expire")
    assert sys.modules["counted_probe"].runs == [1]
    ask(app, "/readyz")
    until(lambda: len(sys.modules["counted_probe"].runs) == 2, "the request starts no run")
    until(lambda: ask(app, "/readyz").status == 200, "the new result is not told")


def test_changes_are_logged(make: Make, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """HL-5.4: a program without an event store finds the changes in its log, a line each."""
    caplog.set_level(logging.INFO, "idkmesh")
    app = make(file_matrix(file))
    app.start()
    until(lambda: ask(app, "/readyz").status == 200, "it does not become ready")
    assert caplog.text == ""
    content = file.read_bytes()
    file.unlink()
    until(lambda: "not ready: db" in caplog.text, "the outage is not told")
    file.write_bytes(content)
    until(lambda: "ready again" in caplog.text, "the end of the outage is not told")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "dependency db (critical) is failing: missing"),
        ("WARNING", "not ready: db"),
        ("INFO", "dependency db is ok again"),
        ("INFO", "ready again"),
    ]


# --- processes --------------------------------------------------------------------------------------------------------

FORKING = """
import os, sys, threading, time, warnings
from wsgiref.util import setup_testing_defaults
from idkmesh import Watchdog
from idkmesh.health.middleware import HealthMiddleware
from tests.health.support import dependency, matrix_of, until
from idkmesh.health.model import Disk

warnings.simplefilter("ignore")  # 3.12 on warns of any fork beside threads, which is what this is about
BEGUN = sys.argv[1] == "begun"

def ask(path):
    environ, seen = {"PATH_INFO": path}, []
    setup_testing_defaults(environ)
    body = b"".join(app(environ, lambda status, fields: seen.append(status)))
    return int(seen[0].split()[0]), body

def ready():
    beat.beat()
    return ask("/readyz")

quick = {"timeout_ms": 5000, "interval_ms": 50, "cache_ms": 20000}
watchdog = Watchdog(3.0)
beat = watchdog.register("main", 0.5)
matrix = matrix_of(dependency("disk", probe=Disk(path="/", min_free_bytes=1), **quick))
app = HealthMiddleware(lambda environ, start_response: [], matrix, watchdog)
if BEGUN:
    app.start()
    until(lambda: ready()[0] == 200, "the parent is not ready")
time.sleep(0.6)  # the main thread of a server that forks says nothing meanwhile
children = []
with app._lock, watchdog._lock:  # as if another thread held them
    for _ in range(3):
        child = os.fork()
        if not child:
            break
        children.append(child)
if not child:
    app({"PATH_INFO": "/page", "REQUEST_METHOD": "GET"}, None)
    assert app._service is not None, "the first request of a child does not begin"
    assert ask("/livez") == (200, b"ok"), "a silence of the parent is held against the child"
    until(lambda: ready()[0] == 200, "the child is not ready")
    assert sorted(watchdog.silences(0.0)) == ["main", "probes"]
    assert sum(thread.name == "health-scheduler" for thread in threading.enumerate()) == 1
    assert app.close()
    os._exit(0)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
if BEGUN:
    assert ready()[0] == 200, "the parent has lost its runner"
assert app.close()
print(codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("parent", ["begun", "fresh"])
def test_each_process_has_its_own_runner(parent: str) -> None:
    """HL-6.1: a pre-forked child begins its own, with the parent's locks held and its silences not counted."""
    command = [sys.executable, "-c", FORKING, parent]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert done.stdout == "[0, 0, 0]\n"
    # The parent's main thread is silent, and that is told where somebody watches.
    assert set(done.stderr.splitlines()) <= ({"stalled: main silent for too long"} if parent == "begun" else set())


def test_it_needs_no_server() -> None:
    """HL-6.1: the middleware imports nothing of our server; the package imports nothing of it until it is asked."""
    code = (
        "import sys, idkmesh; print(any(name.startswith('idkmesh.') for name in sys.modules)); "
        "import idkmesh.health.middleware; print('idkmesh.httpd' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False\nFalse\n"


# --- the public library -----------------------------------------------------------------------------------------------


def test_the_names_of_the_library() -> None:
    """HL-6.1: `idkmesh.Watchdog` and `idkmesh.ProbeMatrix`, which reads a file or says all that is wrong with it."""
    assert idkmesh.Watchdog is Watchdog
    matrix = idkmesh.ProbeMatrix.load(EXAMPLE)
    assert matrix == idkmesh.ProbeMatrix.load(str(EXAMPLE))
    assert [row.name for row in matrix.dependencies] == ["orders-db", "cache"]
    with pytest.raises(ValueError, match="cannot be read"):
        idkmesh.ProbeMatrix.load("no such file")


def test_flask(file: Path, tmp_path: Path) -> None:
    """HL-6.1: three lines around a Flask application; its own routes and errors stay as they are."""
    (tmp_path / "matrix.yaml").write_text(
        EXAMPLE.read_text().partition("dependencies:")[0]
        + f"dependencies:\n  - {{name: disk, critical: true, probe: {{file: {{path: {json.dumps(str(file))}}}}},\n"
        "     timeout_ms: 500, interval_ms: 500, cache_ms: 5000}\n"
    )
    app = flask.Flask("app")
    app.add_url_rule("/", view_func=lambda: "hello")
    middleware = HealthMiddleware(app.wsgi_app, idkmesh.ProbeMatrix.load(tmp_path / "matrix.yaml"))
    app.wsgi_app = middleware  # type: ignore[method-assign]  # as Flask's documentation has it
    client = app.test_client()
    assert client.get("/").text == "hello"
    assert client.get("/nowhere").status_code == HTTPStatus.NOT_FOUND
    until(lambda: client.get("/readyz").status_code == HTTPStatus.OK, "it has not become ready")
    document = client.get("/readyz").get_json()
    assert (document["status"], document["service"]) == ("ready", "health")
    assert client.get("/livez").text == "ok"
    assert middleware.close()
