"""Starts one server that is started from Python: ``python -m benchlib.serve_peer NAME PORT``.

Each gets the same program and, where it has a pool, the same number of threads; the rest is its default.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from . import app
from .processes import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 16


class QuietFiles(SimpleHTTPRequestHandler):
    """The standard library's file handler without its access log."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def files() -> partial[QuietFiles]:
    """Return the file handler, on the directory that the benchmark names."""
    return partial(QuietFiles, directory=os.environ["BENCH_FILES"])


def threading_http_server(port: int) -> None:
    """Run the standard library's server: a thread for each connection."""
    serve_forever(ThreadingHTTPServer((HOST, port), app.Handler))


def threading_files(port: int) -> None:
    """Run the standard library's server with its file handler."""
    serve_forever(ThreadingHTTPServer((HOST, port), files()))


def waitress(port: int) -> None:
    """Run waitress: one asynchronous front, a pool of threads."""
    importlib.import_module("waitress").serve(app.wsgi, host=HOST, port=port, threads=THREADS, _quiet=True)


def cheroot(port: int) -> None:
    """Run cheroot: one front, a pool of threads that read and write themselves."""
    importlib.import_module("cheroot.wsgi").Server((HOST, port), app.wsgi, numthreads=THREADS).start()


def werkzeug(port: int) -> None:
    """Run Werkzeug's development server, a thread for each connection, without its access log."""
    serving = importlib.import_module("werkzeug.serving")

    class Quiet(serving.WSGIRequestHandler):  # type: ignore[misc, name-defined]
        def log(self, *_: object, **__: object) -> None:
            """Write nothing."""

    serving.make_server(HOST, port, app.wsgi, threaded=True, request_handler=Quiet).serve_forever()


def serve_forever(server: HTTPServer) -> None:
    """Serve until the process ends."""
    with server:
        server.serve_forever()


PEERS: dict[str, Callable[[int], Any]] = {
    function.__name__: function for function in (threading_http_server, threading_files, waitress, cheroot, werkzeug)
}

if __name__ == "__main__":
    PEERS[sys.argv[1]](int(sys.argv[2]))
