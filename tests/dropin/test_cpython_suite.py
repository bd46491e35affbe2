"""CPython's own tests of its HTTP server, on `BoundedHTTPServer`, as the running interpreter carries them.

Each run is a process of its own (`cpython_suite.py`): the suite changes what is global to a process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import idkmesh

RUNNER = Path(__file__).with_name("cpython_suite.py")
NOBODY = 65_534
ROOT_SKIPS = "as root"
CGI = "CGIHTTPServerTestCase"

DIFFERENCES = {
    "BaseHTTPServerTestCase.test_request_line_trimming": "HS-3.4: a bare LF is refused, it ends no line",
    "BaseHTTPServerTestCase.test_return_header_keep_alive": "HS-7.1: one request a connection",
    "BaseHTTPServerTestCase.test_version_none_get": "HS-3.1: HTTP/0.9 is refused",
    "SimpleHTTPServerTestCase.test_path_without_leading_slash": "HS-3.3: a request-target begins with a slash",
}
"""What fails in test.test_httpservers, by policy (HS-10.7)."""
CGI_DIFFERENCES = {
    f"{CGI}.test_no_leading_slash": "HS-3.3: a request-target begins with a slash",
}
"""What fails by policy of those that CPython skips as root."""
KEEP_ALIVE_LINE = "a handler offers keep-alive; this server answers one request a connection"

OTHER_SUITES = {
    "test.test_docxmlrpc": 9,
    "test.test_robotparser": 50,
    "test.test_urllib2_localnet": 20,
    "test.test_wsgiref": 30,
}
"""Other modules that start a server, and how many of their tests must run at the least. No difference is expected."""


def run(module: str, **options: Any) -> dict[str, Any]:
    """Run a module of the suite and return what `cpython_suite.py` tells of it."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"this installation of Python has no {module}: on Debian the package is libpythonX.Y-testsuite")
    source = str(Path(idkmesh.__file__).parents[1])
    environment = {**options.pop("env", os.environ), "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, RUNNER, module],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        **options,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def assert_differences(report: dict[str, Any], expected: dict[str, str]) -> None:
    """Compare in both directions: an unexpected failure fails, and so does an expected one that does not occur."""
    unexpected = {name: why for name, why in report["failed"].items() if name not in expected}
    assert unexpected == {}
    missing = sorted(set(expected) - set(report["failed"]))
    assert missing == [], "these differences do not occur any more: take them out of the table"


def test_cpython_tests_of_http_server() -> None:
    """HS-10.1, HS-10.7: test.test_httpservers passes on unmodified handlers but for the table of differences."""
    report = run("test.test_httpservers")
    expected = DIFFERENCES if os.geteuid() == 0 else DIFFERENCES | CGI_DIFFERENCES
    assert_differences(report, expected)
    classes = {name.partition(".")[0] for name in report["ran"]}
    assert classes >= {
        "BaseHTTPRequestHandlerTestCase",
        "BaseHTTPServerTestCase",
        "MiscTestCase",
        "RequestHandlerLoggingTestCase",
        "ScriptTestCase",
        "SimpleHTTPRequestHandlerTestCase",
        "SimpleHTTPServerTestCase",
    }
    # What is left out is left out by CPython: as root the CGI tests, which the next test runs, and nothing else here.
    left_out = {name.partition(".")[0] for name in report["skipped"]}
    assert left_out <= ({CGI} if os.geteuid() == 0 else set())
    assert report["log"] == [KEEP_ALIVE_LINE]


@pytest.mark.skipif(os.geteuid() != 0, reason="the test before has run them: they are skipped as root alone")
def test_cpython_tests_of_cgi(tmp_path_factory: pytest.TempPathFactory) -> None:
    """HS-10.1: the tests of CGIHTTPRequestHandler, which CPython skips as root, pass as another user."""
    report_as_nobody = can_be_run_by_nobody()
    if not report_as_nobody:
        pytest.skip("this interpreter is installed where no other user can run it; test_programs.py has a test as root")
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    report = run("test.test_httpservers", user=NOBODY, group=NOBODY, extra_groups=[], cwd="/tmp", env=environment)
    assert_differences(report, DIFFERENCES | CGI_DIFFERENCES)
    assert len([name for name in report["ran"] if name.startswith(CGI)]) >= 10


def can_be_run_by_nobody() -> bool:
    """Say whether user nobody can start this interpreter and read the project."""
    command = [sys.executable, "-c", f"open({os.fspath(RUNNER)!r}); open({idkmesh.__file__!r})"]
    try:
        done = subprocess.run(
            command, check=False, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True
        )
    except OSError:
        return False
    return done.returncode == 0


@pytest.mark.parametrize("module", OTHER_SUITES)
def test_other_cpython_tests_that_start_a_server(module: str) -> None:
    """HS-10.1, HS-11.1: XML-RPC, digest authentication, TLS and wsgiref's handler work as on the standard library."""
    report = run(module)
    assert_differences(report, {})
    assert len(report["ran"]) >= OTHER_SUITES[module]
