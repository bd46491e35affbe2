"""WSGI applications on `BoundedWSGIServer` (HS-10.1, PEP 3333)."""

from __future__ import annotations

import contextvars
import functools
import http.client
import io
import ssl
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import demo_app
from wsgiref.validate import validator

import flask
import prometheus_client
import pytest

from idkmesh.httpd import BoundedWSGIServer
from tests.functional.support import ending, get, parse, post, read_to_end, until
from tests.functional.tls_support import client_context, server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.functional.support import Answer, Running

    Environ = dict[str, Any]
    StartResponse = Callable[..., Callable[[bytes], object]]
    Serve = Callable[..., Running]


class Server(BoundedWSGIServer):
    gate = threading.Event()


@pytest.fixture
def serve_app(serve: Serve) -> Serve:
    """Return a function that serves a WSGI callable."""
    return functools.partial(serve, server_class=Server)


def app_of(body: Any, *fields: tuple[str, str], status: str = "200 OK") -> Any:
    """Return an application that always answers the same; `body` is called where it can be."""

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response(status, list(fields))
        result: Iterable[bytes] = body() if callable(body) else body
        return result

    return app


# --- environment ------------------------------------------------------------------------------------------------------


def environ_for(serve_app: Serve, request: bytes, **options: Any) -> Environ:
    seen: list[Environ] = []

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        seen.append(environ | {"body": environ["wsgi.input"].read()})
        start_response("200 OK", [])
        return []

    assert serve_app(app, **options).ask(request).status == 200
    return seen[0]


def test_environment_is_complete(serve_app: Serve) -> None:
    """HS-10.1: the environment is what PEP 3333 asks for, with the request and nothing else in it."""
    request = post("/a%20b/%C3%A9?x=%20&y", 4, "Content-Type: text/plain", "X-Some-Field:  value ") + b"body"
    environ = environ_for(serve_app, request)
    assert type(environ) is dict
    errors = environ.pop("wsgi.errors")
    assert errors is sys.stderr
    assert isinstance(environ.pop("wsgi.input"), io.BytesIO)
    assert environ.pop("wsgi.file_wrapper")
    assert environ.pop("SERVER_PORT").isdigit()
    assert environ == {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a b/\xc3\xa9",
        "QUERY_STRING": "x=%20&y",
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "4",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "h",
        "HTTP_X_SOME_FIELD": "value",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "body": b"body",
    }


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", "/", ""),
        ("/?", "/", ""),
        ("/a?b?c", "/a", "b?c"),
        ("//evil.example/%2e", "/evil.example/.", ""),
        ("///a", "/a", ""),
        ("http://h/a?b", "/a", "b"),
        ("http://h//a", "/a", ""),
        ("/%zz%4", "/%zz%4", ""),
        ("/%00", "/\0", ""),
        ("/%2Fevil.com/", "/evil.com/", ""),
        ("/%2f%2F/evil.com", "/evil.com", ""),
        ("http://h/%2Fevil.com/", "/evil.com/", ""),
        ("/a/%2Fb", "/a//b", ""),
    ],
)
def test_path_and_query(serve_app: Serve, target: str, path: str, query: str) -> None:
    """HS-10.3: the path is decoded once, never begins with two slashes, escaped ones included, and has no query."""
    environ = environ_for(serve_app, get(target))
    assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == (path, query)


def test_repeated_fields_and_underscores(serve_app: Serve) -> None:
    """HS-10.1: fields of one name are joined (RFC 9110 5.2, cookies RFC 6265 5.4); one with an underscore is left out.

    It could not be told from the same name with a hyphen, which a proxy in front may have set.
    """
    fields = ["X-A: 1", "x-a: 2", "Cookie: a=1", "Cookie: b=2", "X_User: forged", "X-User: real", "Content_Length: 9"]
    environ = environ_for(serve_app, get("/", *fields))
    assert environ["HTTP_X_A"] == "1, 2"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert environ["HTTP_X_USER"] == "real"
    assert "CONTENT_LENGTH" not in environ
    assert "CONTENT_TYPE" not in environ


def test_tls_is_told(serve_app: Serve) -> None:
    """HS-11.1: the scheme is https over TLS."""
    here = serve_app(app_of(lambda: [b"secure"]), ssl_context=server_context())
    with client_context().wrap_socket(here.connect(), server_hostname="127.0.0.1") as client:
        client.sendall(get("/"))
        assert parse(read_to_end(client)).body == b"secure"
    assert isinstance(here.core.tls, ssl.SSLContext)
    assert here.server._runner._environ["wsgi.url_scheme"] == "https"


def scheme_app(environ: Environ, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [])
    return [environ["wsgi.url_scheme"].encode()]


def test_tls_of_a_wrapped_listener_is_told(serve_app: Serve) -> None:
    """HS-11.1: the scheme is https too where the program wraps the listening socket after construction."""

    def wrap(server: Any) -> None:
        server.socket = server_context().wrap_socket(server.socket, server_side=True)

    here = serve_app(scheme_app, prepare=wrap)
    with client_context().wrap_socket(here.connect(), server_hostname="127.0.0.1") as client:
        client.sendall(get("/"))
        assert parse(read_to_end(client)).body == b"https"


def test_serial_profile_is_told(serve_app: Serve) -> None:
    """HS-2.8: without workers the application is never called by two threads at once, and is told so."""
    assert environ_for(serve_app, get("/"), serial=True)["wsgi.multithread"] is False


@pytest.mark.parametrize(
    ("head", "host"),
    [
        (b"GET http://target.example:8080/a HTTP/1.1\r\nHost: field.example\r\n\r\n", "target.example:8080"),
        (b"GET https://target.example HTTP/1.1\r\nHost: field.example\r\n\r\n", "target.example"),
        (b"GET http://target.example/ HTTP/1.0\r\n\r\n", "target.example"),
        (b"GET /http://target.example/ HTTP/1.1\r\nHost: field.example\r\n\r\n", "field.example"),
        (b"OPTIONS * HTTP/1.1\r\nHost: field.example\r\n\r\n", "field.example"),
        (b"GET / HTTP/1.0\r\n\r\n", None),
    ],
)
def test_host(serve_app: Serve, head: bytes, host: str | None) -> None:
    """RFC 9112 3.2.2, HS-10.1: the authority of an absolute-form target takes the place of the Host field."""
    assert environ_for(serve_app, head).get("HTTP_HOST") == host


# --- the validator ----------------------------------------------------------------------------------------------------


def validated(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Use everything of PEP 3333 that there is; the validator looks at both sides."""
    body = environ["wsgi.input"]
    parts = [body.read(2), body.readline(), *body.readlines(1), *body]
    environ["wsgi.errors"].write("")
    environ["wsgi.errors"].writelines([])
    environ["wsgi.errors"].flush()
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"written,")
    return iter([b"".join(parts), b"", b",given"])


REQUESTS = {
    "get": get("/a?b"),
    "head": get("/").replace(b"GET", b"HEAD"),
    "post": post("/", 15, "Content-Type: text/plain") + b"one\ntwo\nthree\n.",
    "empty post": post("/", 0),
    "old": b"GET / HTTP/1.0\r\n\r\n",
    "absolute": get("http://h/"),
    "bare authority": get("http://h"),
    "delete": get("/").replace(b"GET", b"DELETE"),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.filterwarnings("error")
def test_validator_is_content(serve_app: Serve, name: str) -> None:
    """HS-10.1: `wsgiref.validate` finds no fault with the server's side of the protocol."""
    here = serve_app(validator(validated))
    answer = here.ask(REQUESTS[name])
    assert answer.status == 200
    expected = REQUESTS[name].partition(b"\r\n\r\n")[2]
    assert answer.body == (b"" if name == "head" else b"written," + expected + b",given")
    assert answer.fields["connection"] == "close"
    assert here.log.lines == []


# --- responses --------------------------------------------------------------------------------------------------------


def ask(serve_app: Serve, app: Any, request: bytes = get("/")) -> Answer:
    return serve_app(app).ask(request)


def test_head_of_a_response(serve_app: Serve) -> None:
    """HS-7.1, HS-7.2: the application's fields, a date, the length where it is known, and Connection: close."""
    answer = ask(serve_app, app_of([b"body"], ("X-A", "1"), ("X-A", "2"), status="404 Not Here"))
    head = answer.raw.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[:3] == [b"HTTP/1.0 404 Not Here", b"X-A: 1", b"X-A: 2"]
    assert [line.partition(b":")[0] for line in head[3:]] == [b"Date", b"Content-Length", b"Connection"]
    assert answer.fields["content-length"] == "4"
    assert answer.fields["connection"] == "close"


def test_own_date_and_hop_by_hop_fields(serve_app: Serve) -> None:
    """HS-7.1: the application's own date stands; fields that are the connection's business are the server's."""
    fields = [("Date", "today"), ("Connection", "keep-alive"), ("Keep-Alive", "9"), ("Transfer-Encoding", "chunked")]
    answer = ask(serve_app, app_of([b"body"], *fields))
    assert answer.fields == {"date": "today", "content-length": "4", "connection": "close"}


def two_parts() -> Iterator[bytes]:
    yield b"one,"
    yield b""
    yield b"two"


@pytest.mark.parametrize(
    ("body", "expected", "length"),
    [
        ([b"one"], b"one", "3"),
        ((b"one",), b"one", "3"),
        ([b"one,", b"two"], b"one,two", None),
        ([], b"", "0"),
        ([b""], b"", "0"),
        (two_parts, b"one,two", None),
        (b"", b"", "0"),
        ([types.new_class("Sub", (bytes,))(b"sub")], b"sub", "3"),
    ],
    ids=["list", "tuple", "parts", "nothing", "empty", "generator", "no list", "subclass"],
)
def test_bodies(serve_app: Serve, body: Any, expected: bytes, length: str | None) -> None:
    """HS-10.1: whatever iterable of bytes is the body; its length is told where it is known before the first byte."""
    answer = ask(serve_app, app_of(body))
    assert answer.body == expected
    assert answer.fields.get("content-length") == length


def test_generator_calls_start_response(serve_app: Serve) -> None:
    """HS-10.1: a generator starts its response with its first part, as PEP 3333 allows."""

    def app(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        start_response("202 Accepted", [])
        yield environ["PATH_INFO"].encode()

    answer = ask(serve_app, app, get("/later"))
    assert (answer.status, answer.body) == (202, b"/later")


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_status_without_body(serve_app: Serve, status: str) -> None:
    """HS-7.7: 204 and 304 carry neither a body nor a length of the server's."""
    answer = ask(serve_app, app_of([b"body"], ("ETag", '"a"'), status=status))
    assert answer.body == b""
    assert answer.fields.keys() == {"etag", "date", "connection"}


@pytest.mark.parametrize(
    ("body", "fields", "length"),
    [
        ([b"body"], (), "4"),
        ([b"body"], (("Content-Length", "4"),), "4"),
        ([], (("Content-Length", "4"),), "4"),
        ([], (), None),
        (two_parts, (), None),
    ],
)
def test_answer_to_head(serve_app: Serve, body: Any, fields: Any, length: str | None) -> None:
    """HS-7.7: the answer to HEAD has no body; it never claims that the answer to GET would be empty."""
    answer = ask(serve_app, app_of(body, *fields), get("/").replace(b"GET", b"HEAD"))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.fields.get("content-length") == length


def test_more_than_was_promised_is_cut(serve_app: Serve) -> None:
    """PEP 3333, HS-10.1: beyond the promised Content-Length nothing is sent, and the program is told once."""
    here = serve_app(app_of([b"12", b"345", b"6"], ("Content-Length", "4")))
    for _ in range(3):
        assert here.ask(get("/")).body == b"1234"
    until(lambda: here.log.lines)
    assert len(here.log.about("more than the Content-Length")) == len(here.log.lines) == 1


def test_less_than_was_promised_is_an_error(serve_app: Serve) -> None:
    """HS-7.6: a body shorter than promised is a 500 while nothing has left, and a cut connection after."""
    here = serve_app(app_of([b"12"], ("Content-Length", "4")))
    answer = here.ask(get("/"))
    assert (answer.status, answer.code) == (500, "internal_error")
    until(lambda: here.log.about("promised 2 bytes more than it gave"))

    def long() -> Iterator[bytes]:
        yield b"x" * 200_000

    data, end = ending(serve_app(app_of(long, ("Content-Length", "200001"))).connect(get("/")))
    assert end == "reset"
    assert not data.endswith(b"}")


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ("200", []),
        ("200OK", []),
        ("OK", []),
        ("99 Low", []),
        ("200 OK\r\nX: y", []),
        (b"200 OK", []),
        (200, []),
        ("200 OK", [("A", "b\r\nSet-Cookie: c")]),
        ("200 OK", [("A\r\nB", "c")]),
        ("200 OK", [("A:", "c")]),
        ("200 OK", [("", "c")]),
        ("200 OK", [("A", "\u20ac")]),
        ("200 OK", [(b"A", b"b")]),
        ("200 OK", [("A", 1)]),
        ("200 OK", [("Content-Length", "+1")]),
        ("200 OK", [("Content-Length", "1_0")]),
        ("200 OK", [("Content-Length", "")]),
        ("200 OK", [("Content-Length", "1"), ("content-length", "1")]),
        ("200 OK", None),
    ],
)
def test_what_is_no_head_is_refused_by_start_response(serve_app: Serve, status: Any, fields: Any) -> None:
    """HS-10.1: start_response itself raises at what would not be one line of HTTP, where the program can handle it."""
    raised: list[BaseException] = []

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        try:
            start_response(status, fields)
        except (TypeError, ValueError) as error:
            raised.append(error)
        start_response("200 OK", [])
        return [b"recovered"]

    assert ask(serve_app, app).body == b"recovered"
    assert len(raised) == 1


FAULTS: dict[str, Callable[[Any], Any]] = {
    "no start_response": lambda start_response: [b"body"],
    "nothing at all": lambda start_response: [],
    "twice": lambda start_response: [start_response("200 OK", []), start_response("200 OK", [])],
    "text": lambda start_response: (start_response("200 OK", []), ["text"])[1],
    "a text": lambda start_response: (start_response("200 OK", []), "text")[1],
    "bytes, which are integers": lambda start_response: (start_response("200 OK", []), b"body")[1],
    "bytearray": lambda start_response: (start_response("200 OK", []), [bytearray(b"body")])[1],
    "None": lambda start_response: start_response("200 OK", []) and None,
    "text written": lambda start_response: start_response("200 OK", [])("text"),
    "raising": lambda start_response: 1 / 0,
    "leaving": lambda start_response: sys.exit(3),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_a_500_and_a_line(serve_app: Serve, name: str) -> None:
    """HS-7.6: whatever an application does wrong before output left is a 500 and one line; the slot comes back."""
    here = serve_app(lambda environ, start_response: FAULTS[name](start_response), max_concurrent_requests=1)
    for _ in range(2):
        answer = here.ask(get("/"))
        assert (answer.status, answer.code) == (500, "internal_error")
    until(lambda: len(here.log.lines) == 2)
    assert len(here.log.about("answering GET '/'")) == 2


def test_exc_info_replaces_a_response(serve_app: Serve) -> None:
    """PEP 3333: with exc_info a response that has not begun is replaced; one that has begun raises the exception."""

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        write = start_response("200 OK", [("X-First", "yes")])
        if environ["PATH_INFO"] == "/begun":
            write(b"begun")
        try:
            _ = environ["broken"]
        except KeyError:
            start_response("500 Own Error", [("X-Second", "yes")], sys.exc_info())
        return [b"own page"]

    here = serve_app(app)
    answer = here.ask(get("/"))
    assert (answer.status, answer.body, answer.fields.get("x-first")) == (500, b"own page", None)
    assert answer.fields["x-second"] == "yes"
    assert here.log.lines == []
    assert here.ask(get("/begun")).code == "internal_error"
    until(lambda: len(here.log.about("broken")) == 1)


def test_iterable_is_closed_whatever_happens(serve_app: Serve) -> None:
    """PEP 3333: `close()` of the iterable is called once, after success, failure, HEAD and a client that has left."""
    closed: list[str] = []

    class Body:
        def __init__(self, path: str) -> None:
            self.path = path
            self.parts = iter([b"a", b"b"])

        def __iter__(self) -> Body:
            return self

        def __next__(self) -> bytes:
            if self.path == "/failing":
                raise ValueError(self.path)
            return next(self.parts)

        def close(self) -> None:
            closed.append(self.path)

    def app(environ: Environ, start_response: StartResponse) -> Body:
        start_response("200 OK", [])
        return Body(environ["PATH_INFO"])

    here = serve_app(app)
    here.ask(get("/success"))
    here.ask(get("/failing"))
    here.ask(get("/head").replace(b"GET", b"HEAD"))
    assert closed == ["/success", "/failing", "/head"]


def test_write_callable_and_iterable(serve_app: Serve) -> None:
    """PEP 3333: what `write` is given goes before what the iterable gives, and both count against the promise."""

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        write = start_response("200 OK", [("Content-Length", "9")])
        write(b"one,")
        write(b"two,")
        return [b"x"]

    answer = ask(serve_app, app)
    assert (answer.body, answer.fields["content-length"]) == (b"one,two,x", "9")


def test_parts_leave_while_the_application_goes_on(serve_app: Serve) -> None:
    """HS-7.3: a part that an application gave reaches the client while the application works on the next."""
    go_on = threading.Event()

    def parts() -> Iterator[bytes]:
        yield b"first"
        assert go_on.wait(10)
        yield b"second"

    here = serve_app(app_of(parts))
    client = here.connect(get("/"))
    data = b""
    while not data.endswith(b"first"):
        data += client.recv(1000)
    go_on.set()
    assert read_to_end(client) == b"second"


def test_every_request_has_a_fresh_context(serve_app: Serve) -> None:
    """HS-10.1: a context variable that one request sets is not seen by the next in the same thread."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        before = variable.get()
        variable.set("set")
        start_response("200 OK", [])
        return [before.encode()]

    here = serve_app(app, max_concurrent_requests=1)
    assert {here.ask(get("/")).body for _ in range(4)} == {b"unset"}


# --- files ------------------------------------------------------------------------------------------------------------


def file_app(make: Callable[[], Any], *fields: tuple[str, str], status: str = "200 OK") -> Any:
    def app(environ: Environ, start_response: StartResponse) -> Any:
        start_response(status, list(fields))
        return environ["wsgi.file_wrapper"](make(), 1000)

    return app


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 4000)
    return path


def opened(path: Path, skip: int = 0) -> Any:
    file = path.open("rb")
    file.seek(skip)
    return file


def test_file_wrapper_sends_the_descriptor(serve_app: Serve, large: Path) -> None:
    """HS-7.4: a regular file goes by its descriptor, from where it stands, and is closed by then."""
    files: list[Any] = []
    content = large.read_bytes() * 20
    large.write_bytes(content)

    def make() -> Any:
        files.append(opened(large, 256))
        return files[-1]

    here = serve_app(file_app(make))
    client = here.connect(get("/"), receive_buffer=4096)
    here.wait_for_state("writing", 1)
    assert here.server.usage().in_flight == 0
    assert files[0].closed
    assert parse(read_to_end(client)).body == content[256:]


def test_file_wrapper_keeps_the_promise(serve_app: Serve, large: Path) -> None:
    """PEP 3333: a promised length is what a file gives, neither more nor less."""
    answer = ask(serve_app, file_app(lambda: opened(large), ("Content-Length", "1000")))
    assert answer.body == large.read_bytes()[:1000]
    here = serve_app(file_app(lambda: opened(large, 1_000_000), ("Content-Length", "24001")))
    data, end = ending(here.connect(get("/")))
    assert end == "reset" or b"internal_error" in data
    until(lambda: here.log.about("promised 1 bytes more than the file has"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("status", ["200 OK", "304 Not Modified"])
def test_file_wrapper_without_body(serve_app: Serve, large: Path, method: str, status: str) -> None:
    """HS-7.7: a file is no body where there is none."""
    app = file_app(lambda: opened(large), ("Content-Length", "1024000"), status=status)
    answer = ask(serve_app, app, get("/").replace(b"GET", method.encode()))
    assert len(answer.body) == (1_024_000 if (method, status) == ("GET", "200 OK") else 0)
    assert answer.fields["content-length"] == "1024000"


class Reading:
    """Has `read` and nothing else."""

    def __init__(self) -> None:
        self.left = 2500

    def read(self, size: int) -> bytes:
        count = min(size, self.left)
        self.left -= count
        return b"r" * count


def spooled(memory: int) -> Any:
    file = tempfile.SpooledTemporaryFile(memory)  # noqa: SIM115 (the server closes it)
    file.write(b"spooled, " * 100)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Reading, b"r" * 2500),
        (lambda: io.BytesIO(b"in memory"), b"in memory"),
        (lambda: spooled(10), b"spooled, " * 100),
        (lambda: spooled(10_000), b"spooled, " * 100),
    ],
    ids=["read alone", "memory", "spooled on disk", "spooled in memory"],
)
def test_file_wrapper_of_what_is_no_file(serve_app: Serve, make: Callable[[], Any], expected: bytes) -> None:
    """PEP 3333: whatever has `read` can be wrapped."""
    assert ask(serve_app, file_app(make)).body == expected


def test_file_wrapper_of_a_file_without_a_size(serve_app: Serve) -> None:
    """HS-7.4: the kernel's own files do not tell their size: they are read."""
    path = Path("/proc/version")
    if not path.exists():
        pytest.skip("this system has no /proc/version")
    answer = ask(serve_app, file_app(lambda: opened(path)))
    assert answer.body == path.read_bytes() != b""


# --- applications that people have ------------------------------------------------------------------------------------


def test_demo_app(serve_app: Serve) -> None:
    """HS-10.1: wsgiref's demo application runs, validated."""
    answer = ask(serve_app, validator(demo_app), get("/shown?x"))
    assert answer.body.startswith(b"Hello world!")
    assert b"PATH_INFO = '/shown'" in answer.body


@pytest.mark.parametrize("accept", ["*/*", "application/openmetrics-text"])
def test_prometheus_client(serve_app: Serve, accept: str) -> None:
    """HS-10.1: prometheus_client.make_wsgi_app() exposes its metrics, compressed where the client takes that."""
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("served", "Requests served", registry=registry).inc(3)
    here = serve_app(validator(prometheus_client.make_wsgi_app(registry)))
    answer = here.ask(get("/metrics", f"Accept: {accept}"))
    assert b"served_total 3.0" in answer.body
    assert here.ask(get("/metrics", "Accept-Encoding: gzip")).fields["content-encoding"] == "gzip"


def flask_app(folder: Path) -> flask.Flask:
    app = flask.Flask("app", static_folder=str(folder))

    @app.get("/")
    def index() -> str:
        return f"hello {flask.request.args.get('name', '')} {flask.request.cookies.get('b', '')}"

    @app.post("/form")
    def form() -> dict[str, Any]:
        file = flask.request.files["file"]
        return {"field": flask.request.form["field"], "name": file.filename, "size": len(file.read())}

    @app.post("/json")
    def json() -> Any:
        return flask.jsonify(flask.request.get_json())

    @app.get("/stream")
    def stream() -> flask.Response:
        return flask.Response((f"{number}," for number in range(1000)), mimetype="text/plain")

    @app.get("/error")
    def error() -> str:
        raise ValueError("in the view")

    @app.get("/redirect")
    def redirect() -> Any:
        return flask.redirect(flask.url_for("index"))

    @app.get("/environment")
    def environment() -> dict[str, Any]:
        return {"url": flask.request.url, "scheme": flask.request.scheme, "address": flask.request.remote_addr}

    return app


def test_flask(serve_app: Serve, tmp_path: Path) -> None:
    """HS-10.1: a Flask application: views, forms with files, JSON, streams, static files, redirects and errors."""
    (tmp_path / "style.css").write_bytes(b"body {}" * 20_000)
    app = flask_app(tmp_path)
    here = serve_app(app)
    assert here.ask(get("/?name=you", "Cookie: a=1", "Cookie: b=2")).body == b"hello you 2"
    assert here.ask(get("/", "Accept: */*").replace(b"GET", b"HEAD")).fields["content-length"] == "7"
    boundary = "--b\r\nContent-Disposition: form-data; name="
    body = f'{boundary}"field"\r\n\r\nvalue\r\n{boundary}"file"; filename="f"\r\n\r\n{"x" * 100_000}\r\n--b--\r\n'
    answer = here.ask(post("/form", len(body), "Content-Type: multipart/form-data; boundary=b") + body.encode())
    assert answer.status == 200
    assert b'"size":100000' in answer.body
    answer = here.ask(post("/json", 7, "Content-Type: application/json") + b'{"a":1}')
    assert answer.body == b'{"a":1}\n'
    assert here.ask(post("/json", 3, "Content-Type: application/json") + b"not").status == 400
    assert here.ask(get("/stream")).body == b"".join(b"%d," % number for number in range(1000))
    static = here.ask(get(f"{app.static_url_path}/style.css"))
    assert (static.status, static.body) == (200, b"body {}" * 20_000)
    unchanged = here.ask(get(f"{app.static_url_path}/style.css", f"If-None-Match: {static.fields['etag']}"))
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert here.ask(get("/missing")).status == 404
    assert here.ask(get("/form")).fields["allow"]
    assert here.ask(get("/redirect")).fields["location"] == "/"
    error = here.ask(get("/error"))
    assert error.status == 500
    assert b"Internal Server Error" in error.body
    assert b'"url":"http://h/environment"' in here.ask(get("/environment")).body.replace(b" ", b"")
    assert here.log.lines == []


def test_standard_client(serve_app: Serve) -> None:
    """HS-10.1: http.client reads every answer, one connection each."""
    here = serve_app(app_of(two_parts))
    connection = http.client.HTTPConnection("127.0.0.1", here.server.server_port, timeout=30)
    for _ in range(3):
        connection.request("GET", "/")
        response = connection.getresponse()
        assert (response.status, response.read(), response.will_close) == (200, b"one,two", True)
    connection.close()
