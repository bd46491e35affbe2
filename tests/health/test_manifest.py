"""What orchestrators are told of a matrix: their own formats, the matrix's figures, nothing stricter."""

from __future__ import annotations

import configparser
import dataclasses
import math
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.cli import main
from idkmesh.health.manifest import FORMATS, manifest
from idkmesh.health.matrix_file import read_matrix
from idkmesh.health.model import Figures, Orchestrator, ProbeMatrix, WatchdogFigures
from tests.health.matrices import EXAMPLE

MATRIX = read_matrix(EXAMPLE)

figures = st.builds(
    Figures,
    period_ms=st.integers(100, 86_400_000),
    timeout_ms=st.integers(1, 86_400_000),
    failure_threshold=st.integers(1, 100_000),
)
matrices = st.builds(
    ProbeMatrix,
    orchestrator=st.builds(Orchestrator, startup=figures, liveness=figures, readiness=figures),
    watchdog=st.builds(WatchdogFigures, interval_ms=st.integers(10, 3_600_000), max_missed_ticks=st.integers(1, 1000)),
    dependencies=st.just(()),
)


def unit(text: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys have capitals
    parser.read_string(text)
    assert parser.sections() == ["Service"]
    return parser["Service"]


def ms(span: str) -> int:
    """Return the milliseconds of a time in Go's and systemd's common form."""
    found = re.fullmatch(r"([0-9]+)(ms|s)", span)
    assert found is not None
    return int(found[1]) * {"ms": 1, "s": 1000}[found[2]]


def test_the_stanza_for_kubernetes() -> None:
    """HL-6.3: a part of a pod's specification, with the probe paths and the example's figures."""
    assert yaml.safe_load(manifest(MATRIX, "kubernetes", port=8080)) == {
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "app",
                "startupProbe": {
                    "httpGet": {"path": "/startupz", "port": 8080},
                    "periodSeconds": 1,
                    "timeoutSeconds": 1,
                    "failureThreshold": 30,
                },
                "livenessProbe": {
                    "httpGet": {"path": "/livez", "port": 8080},
                    "periodSeconds": 10,
                    "timeoutSeconds": 1,
                    "failureThreshold": 3,
                },
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": 8080},
                    "periodSeconds": 3,
                    "timeoutSeconds": 1,
                    "failureThreshold": 2,
                },
            }
        ],
    }


def test_the_stanza_for_compose() -> None:
    """HL-6.3: the health check is readiness, and has a second for the start of its own command."""
    assert yaml.safe_load(manifest(MATRIX, "compose", port=8080)) == {
        "services": {
            "app": {
                "healthcheck": {
                    "test": ["CMD", "idkmesh", "healthcheck", "--ready", "http://127.0.0.1:8080"],
                    "interval": "3s",
                    "timeout": "2s",
                    "retries": 2,
                    "start_period": "30s",
                },
                "stop_grace_period": "30s",
            }
        }
    }


@pytest.mark.parametrize(
    ("host", "origin"), [("db", "http://db:1"), ("::1", "http://[::1]:1"), ('"\n', 'http://"\n:1')]
)
def test_the_host_that_compose_asks(host: str, origin: str) -> None:
    """HL-6.3: as given, in brackets where it is an IPv6 address, and quoted whatever it is."""
    document: Any = yaml.safe_load(manifest(MATRIX, "compose", port=1, host=host))
    assert document["services"]["app"]["healthcheck"]["test"][-1] == origin


def test_the_stanza_for_systemd() -> None:
    """HL-6.3: the watchdog's budget and the time to start; a failure restarts, a dependency does not."""
    assert dict(unit(manifest(MATRIX, "systemd", port=8080))) == {
        "Type": "notify",
        "NotifyAccess": "main",
        "TimeoutStartSec": "30s",
        "WatchdogSec": "5s",
        "TimeoutStopSec": "30s",
        "Restart": "on-failure",
    }


@pytest.mark.parametrize("output", ["kubernetes", "compose"])
def test_the_port_has_no_default(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3: the tower's port is on loopback alone, which no kubelet reaches: the port is asked for, and which."""
    assert main(["probes", "manifest", "--format", output, str(EXAMPLE)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "needs --port: that of --probe-listen ADDR:PORT" in told.err
    assert main(["probes", "manifest", "--format", output, "--port", "9000", str(EXAMPLE)]) == 0
    assert "9000" in capsys.readouterr().out


def test_stanzas_say_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.3, HL-1.1: who restarts the unhealthy is told to ask liveness; who notifies systemd is named."""
    compose = manifest(MATRIX, "compose", port=9000)
    assert "autoheal) must be given --live" in compose
    assert "image needs the command idkmesh" in compose
    assert main(["probes", "manifest", "--format", "systemd", str(EXAMPLE)]) == 0
    assert "The commands of idkmesh do so, and programs that end in serve_until_signal" in capsys.readouterr().out


@given(matrices)
def test_nothing_becomes_stricter(matrix: ProbeMatrix) -> None:
    """HL-6.3: whole seconds are rounded up, by less than one; what can be exact is exact."""
    pod: Any = yaml.safe_load(manifest(matrix, "kubernetes", port=1))
    (container,) = pod["containers"]
    for name in ("startup", "liveness", "readiness"):
        asked: Figures = getattr(matrix.orchestrator, name)
        probe = container[f"{name}Probe"]
        assert probe["periodSeconds"] == math.ceil(asked.period_ms / 1000) >= 1
        assert probe["timeoutSeconds"] == math.ceil(asked.timeout_ms / 1000) >= 1
        assert probe["failureThreshold"] == asked.failure_threshold
    compose: Any = yaml.safe_load(manifest(matrix, "compose", port=1))
    check = compose["services"]["app"]["healthcheck"]
    startup, readiness = matrix.orchestrator.startup, matrix.orchestrator.readiness
    assert ms(check["interval"]) == readiness.period_ms
    assert ms(check["timeout"]) == readiness.timeout_ms + 1000
    assert ms(check["start_period"]) == startup.period_ms * startup.failure_threshold
    service = unit(manifest(matrix, "systemd", port=1))
    assert ms(service["WatchdogSec"]) == round(matrix.watchdog.budget_seconds * 1000)
    assert ms(service["TimeoutStartSec"]) == startup.period_ms * startup.failure_threshold


@pytest.mark.parametrize(("drain_ms", "seconds"), [(0, 30), (25_000, 30), (25_001, 31), (300_000, 305)])
def test_the_time_to_stop_has_room_for_the_drain(drain_ms: int, seconds: int) -> None:
    """HL-6.3: five seconds more than the drain takes, and never less than Kubernetes gives by itself."""
    pod: Any = yaml.safe_load(manifest(MATRIX, "kubernetes", port=1, drain_ms=drain_ms))
    assert pod["terminationGracePeriodSeconds"] == seconds
    assert unit(manifest(MATRIX, "systemd", port=1, drain_ms=drain_ms))["TimeoutStopSec"] == f"{seconds}s"
    compose: Any = yaml.safe_load(manifest(MATRIX, "compose", port=1, drain_ms=drain_ms))
    assert compose["services"]["app"]["stop_grace_period"] == f"{seconds}s"


@pytest.mark.parametrize("form", FORMATS)
def test_no_dependency_is_told_to_an_orchestrator(form: str) -> None:
    """HL-6.3: what restarts a process knows nothing of what it depends on."""
    bare = dataclasses.replace(MATRIX, dependencies=())
    assert manifest(bare, form, port=1) == manifest(MATRIX, form, port=1)
    assert manifest(MATRIX, form, port=1).endswith("\n")


def test_what_cannot_be_asked_for() -> None:
    """HL-6.3: an unknown format and a port that is none are one line each."""
    with pytest.raises(ValueError, match=r"^the format 'nomad' is not known; write one of kubernetes, compose, s\w+$"):
        manifest(MATRIX, "nomad", port=1)
    for port in (0, 65_536):
        with pytest.raises(ValueError, match=rf"^the port {port} is none; write one from 1 to 65535$"):
            manifest(MATRIX, "systemd", port=port)
