"""``idkmesh serve FOLDER``: what no file's name, no client and no reader of the log can do to it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.test_cli import COMMAND, environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES_BEYOND_A_PIPE = 200


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with a file and a folder in it."""
    folder = tmp_path / "site"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("file")
    (folder / "sub" / "b.txt").write_text("other")
    return folder


def ask(port: int, target: str, *fields: str, method: str = "GET") -> bytes:
    """Return the whole answer to a target that is sent as it is."""
    head = "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", "Host: a", *fields, ""))
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(head.encode("latin-1"))
        return b"".join(iter(lambda: client.recv(65536), b""))


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("variables", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_text_that_is_no_file_name(site: Path, variables: dict[str, Any]) -> None:
    """CT-9.6: a path that the file system's encoding lacks is 404, also where ``..`` takes the name out again."""
    with serving("serve", str(site), "--port=0", **variables) as service:
        for target in ("/%ED%A0%80", "/%ED%A0%80/", "/sub/%ED%A0%80", "/%ED%A0%80/../", "/sub/%ED%A0%80/../"):
            assert status(ask(service.port, target)) == 404, target
        for target in ("/%C3%A9", "/%FF", "/%ED%B3%BF"):
            assert status(ask(service.port, target)) == 404, target
        _, errors = service.stop()
    assert "Error" not in errors


def test_file_names_that_are_no_text(site: Path) -> None:
    """Rule: a file whose name is not UTF-8 is in its folder's listing, and the link there leads to it."""
    with contextlib.suppress(OSError):  # a file system may refuse the name
        (site / "sub" / os.fsdecode(b"\xff.txt")).write_text("bytes")
        with serving("serve", str(site), "--port=0") as service:
            found = re.search(rb'href="([^"]*FF?[^"]*\.txt)"|href="(%[^"]*\.txt)"', ask(service.port, "/sub/"))
            assert found
            link = (found[1] or found[2]).decode()
            assert ask(service.port, f"/sub/{link}").endswith(b"\r\n\r\nbytes")


def test_listing_does_not_depend_on_the_query(site: Path) -> None:
    """CT-9.6: the same bytes whatever the query, which is no part of what is listed."""
    with serving("serve", str(site), "--port=0") as service:
        for path in ("/", "/sub/"):
            plain = ask(service.port, path).partition(b"\r\n\r\n")[2]
            assert f"Directory listing for {path}</title>".encode() in plain
            for query in ("a=1", "%ED%A0%80", "%FF", "<b>", "a?b"):
                answer = ask(service.port, f"{path}?{query}")
                assert status(answer) == 200, query
                assert answer.partition(b"\r\n\r\n")[2] == plain, query


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO on this system")
def test_what_is_neither_file_nor_folder(site: Path) -> None:
    """CT-9.6: a FIFO, device or socket is 404 at once; none of them takes a worker."""
    os.mkfifo(site / "fifo")
    os.mkfifo(site / "sub" / "index.html")
    (site / "zero").symlink_to("/dev/zero")
    (site / "nowhere").symlink_to(site / "missing")
    listener = socket.socket(socket.AF_UNIX)
    with listener, serving("serve", str(site), "--port=0", "--max-concurrent-requests=2") as service:
        listener.bind(str(site / "socket"))
        for _ in range(3):
            for name in ("fifo", "zero", "nowhere", "socket", "fifo/", "a.txt/", "missing"):
                for method in ("GET", "HEAD"):
                    assert status(ask(service.port, f"/{name}", method=method)) == 404, name
        assert status(ask(service.port, "/sub/")) == 200, "a listing: the index is no file"
        assert ask(service.port, "/a.txt").endswith(b"\r\n\r\nfile")


def test_symbolic_links_are_followed(site: Path) -> None:
    """CT-9.6: as the standard library does, out of the folder too."""
    (site.parent / "outside.txt").write_text("outside")
    (site / "link.txt").symlink_to(site.parent / "outside.txt")
    with serving("serve", str(site), "--port=0") as service:
        assert ask(service.port, "/link.txt").endswith(b"\r\n\r\noutside")


def test_every_answer_keeps_its_type(site: Path) -> None:
    """CT-9.6: files, listings, redirects, 304 and errors carry ``X-Content-Type-Options: nosniff``, once."""
    fresh = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"
    cases = (("/a.txt", 200), ("/", 200), ("/sub", 301), ("/missing", 404), ("/a\\b", 404))
    with serving("serve", str(site), "--port=0") as service:
        answers = [(ask(service.port, target), expected) for target, expected in cases]
        answers += [(ask(service.port, "/a.txt", fresh), 304), (ask(service.port, "/", method="PUT"), 501)]
    for answer, expected in answers:
        assert status(answer) == expected
        head = answer.partition(b"\r\n\r\n")[0]
        assert head.count(b"\r\nX-Content-Type-Options: nosniff") == 1, answer


def test_request_lines_are_lines_of_the_log(site: Path) -> None:
    """CT-9.6, HS-13.1: one printable line of bounded length for each request, as the standard library words it."""
    with serving("serve", str(site), "--port=0") as service:
        ask(service.port, "/a.txt")
        ask(service.port, "/missing%0A")
        ask(service.port, "/" + "x" * 60_000)
        _, errors = service.stop()
    lines = errors.splitlines()
    assert all(line.isprintable() and len(line) <= 1024 for line in lines)
    assert re.fullmatch(r'127\.0\.0\.1 - - \[[^\]]+\] "GET /a\.txt HTTP/1\.1" 200 -', lines[0])
    assert sum('"GET ' in line for line in lines) == 3


@contextlib.contextmanager
def started(site: Path, *, stderr: int | None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve a folder with this standard error, closed where None."""
    command = [*COMMAND, "serve", str(site), "--port=0", "--max-concurrent-requests=2", "--drain-timeout=1"]
    if stderr is None:
        command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment())
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/$", process.stdout.readline())
        assert found
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def ends_well(process: subprocess.Popen[str]) -> bool:
    """Say whether SIGTERM ends it with 0, in good time."""
    began = time.monotonic()
    process.terminate()
    return process.wait(30) == 0 and time.monotonic() - began < 20


def test_nobody_reads_the_log(site: Path) -> None:
    """HS-13.1: a pipe at standard error that nobody empties holds up neither a request nor the end."""
    read, write = os.pipe()
    try:
        with started(site, stderr=write) as (process, port):
            for _ in range(LINES_BEYOND_A_PIPE):
                assert status(ask(port, "/" + "x" * 1000)) == 404
            assert ask(port, "/a.txt").endswith(b"\r\n\r\nfile")
            assert ends_well(process)
    finally:
        os.close(read)
        os.close(write)


def test_closed_log(site: Path) -> None:
    """HS-13.1: standard error that is closed from the start, or whose reader has gone, changes no answer."""
    read, write = os.pipe()
    os.close(read)
    try:
        for stderr in (None, write):
            with started(site, stderr=stderr) as (process, port):
                for _ in range(3):
                    assert ask(port, "/a.txt").endswith(b"\r\n\r\nfile")
                    assert status(ask(port, "/missing")) == 404
                assert ends_well(process)
    finally:
        os.close(write)
