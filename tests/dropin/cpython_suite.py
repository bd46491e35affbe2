"""Runs one module of CPython's own test suite with `BoundedHTTPServer` in the place of its servers.

    python cpython_suite.py MODULE

prints one JSON object: the tests that ran, those that failed with the last line of why, those that were skipped with
the reason, and what the server logged. The handlers, clients and assertions are CPython's.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import unittest
from http.server import HTTPServer
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from xmlrpc.server import DocXMLRPCRequestHandler, SimpleXMLRPCDispatcher, XMLRPCDocGenerator

from idkmesh.httpd import BoundedHTTPServer

if TYPE_CHECKING:
    import ssl


class LoopbackServer(BoundedHTTPServer):
    """The part of `LoopbackHttpServer`, the server of urllib's tests, that is not a step of `get_request`."""

    timeout = 0.1


class DocServer(BoundedHTTPServer, SimpleXMLRPCDispatcher, XMLRPCDocGenerator):
    """`DocXMLRPCServer`, whose base calls `TCPServer.__init__` by name."""

    def __init__(self, address: tuple[str, int], *, logRequests: bool) -> None:  # noqa: N803 (the caller's name)
        self.logRequests = logRequests
        SimpleXMLRPCDispatcher.__init__(self, allow_none=False, encoding=None)
        XMLRPCDocGenerator.__init__(self)
        BoundedHTTPServer.__init__(self, address, DocXMLRPCRequestHandler)


class ReferenceServer(WSGIServer, BoundedHTTPServer):
    """The server of `wsgiref` on the bounded one: its handler overrides `handle`, so it goes the slow way."""


def secure_server(address: tuple[str, int], handler: Any, context: ssl.SSLContext) -> HTTPServer:
    return BoundedHTTPServer(address, handler, ssl_context=context)


def make_reference_server(
    host: str, port: int, app: Any, server_class: Any = ReferenceServer, handler_class: Any = WSGIRequestHandler
) -> WSGIServer:
    """Do what `make_server` does, on the bounded server unless the test brings its own (a mock without a socket)."""
    server: WSGIServer = make_server(host, port, app, server_class, handler_class)
    return server


def substitute(module: Any) -> None:
    """Put the bounded server in the place of the module's own."""
    name = module.__name__
    if name == "test.test_urllib2_localnet":
        module.LoopbackHttpServer = LoopbackServer
        importlib.import_module("test.ssl_servers").HTTPSServer = secure_server  # type: ignore[attr-defined]
    elif name == "test.test_docxmlrpc":
        module.DocXMLRPCServer = DocServer
    elif name == "test.test_wsgiref":
        module.make_server = make_reference_server
    else:
        assert module.HTTPServer is HTTPServer
        module.HTTPServer = BoundedHTTPServer


class Outcome(unittest.TestResult):
    """Keeps names and reasons."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []
        self.failed: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.ran.append(short_name(test))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._fail(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._fail(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail(test, err)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.failed[short_name(test)] = "unexpected success"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.left_out[short_name(test)] = reason

    def _fail(self, test: unittest.TestCase, err: Any) -> None:
        self.failed[short_name(test)] = f"{err[0].__name__}: {err[1]}".splitlines()[0]


def short_name(test: unittest.TestCase) -> str:
    """Return ``Class.test``, or what stands for a class that could not be set up."""
    return ".".join(test.id().split(".")[-2:])


class Lines(logging.Handler):
    """Keeps what the server logs, and keeps it from standard error, which some tests look at."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.add(record.getMessage())


def main(name: str) -> None:
    lines = Lines()
    logger = logging.getLogger("idkmesh")
    logger.addHandler(lines)
    logger.propagate = False
    module = importlib.import_module(name)
    substitute(module)
    outcome = Outcome()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(outcome)
    document = {
        "ran": sorted({*outcome.ran} - {*outcome.left_out}),
        "failed": outcome.failed,
        "skipped": outcome.left_out,
        "log": sorted(lines.lines),
    }
    sys.__stdout__.write(json.dumps(document) + "\n")  # type: ignore[union-attr]  # there is one


if __name__ == "__main__":
    main(sys.argv[1])
