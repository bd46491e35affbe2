"""What an orchestrator is to be told, from the matrix's own figures (HL-6.3). Pure: values to text.

Nothing becomes stricter than the matrix: where a format has whole seconds, times are rounded up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from idkmesh.addresses import url_host
from idkmesh.service_runtime import SETTINGS

if TYPE_CHECKING:
    from idkmesh.health.model import Figures, ProbeMatrix

_DRAIN_MS: Final = round(1000 * next(row.default for row in SETTINGS if row.name == "drain_timeout"))

_STOP_SECONDS: Final = 30
"""Kubernetes's own default of the time between SIGTERM and SIGKILL. A stanza never shortens it."""

_STOP_MARGIN_MS: Final = 5000
"""For what comes before and after the drain: telling the balancer, writing the events out."""

_START_MS: Final = 1000
"""Compose's timeout begins with the start of the command, and an interpreter takes a third of a second to be there."""

_MAX_PORT: Final = 65_535


def manifest(
    matrix: ProbeMatrix,
    format: str,  # noqa: A002  what the flag is called
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    drain_ms: int = _DRAIN_MS,
) -> str:
    """Return the stanza for ``format``, one of :data:`FORMATS`, with comments; it ends with a line feed.

    ``port`` is where the probe paths are answered to others, that of ``--probe-listen``; every format but systemd,
    which asks nothing, needs it. ``host`` is the address of that for who asks from within, which
    Compose does; a kubelet asks the pod's address. ``drain_ms`` is the drain timeout of the service, 5 s by default.
    Raises :class:`ValueError`, one line, for an unknown format, without the port, or with one that is none.
    """
    if format not in FORMATS:
        raise ValueError(f"the format {format!r} is not known; write one of {', '.join(FORMATS)}")
    if port is not None and not 1 <= port <= _MAX_PORT:
        raise ValueError(f"the port {port} is none; write one from 1 to {_MAX_PORT}")
    if format == "systemd":
        return _systemd(matrix, _stop_seconds(drain_ms))
    if port is None:
        raise ValueError(
            f"the stanza for {format} needs --port: that of --probe-listen ADDR:PORT, where the probes are answered"
        )
    asking = {"kubernetes": _kubernetes, "compose": _compose}
    return asking[format](matrix, port, host, _stop_seconds(drain_ms))


def _kubernetes(matrix: ProbeMatrix, port: int, _host: str, stop_seconds: int) -> str:
    asked = matrix.orchestrator
    return f"""\
# For the specification of a pod. The kubelet asks the pod's own address: the probes must be answered there, not on
# loopback alone. Liveness tells of this process, never of a dependency.
terminationGracePeriodSeconds: {stop_seconds}
containers:
  - name: app
    startupProbe:
{_http_probe("/startupz", port, asked.startup)}
    livenessProbe:
{_http_probe("/livez", port, asked.liveness)}
    readinessProbe:
{_http_probe("/readyz", port, asked.readiness)}
"""


def _http_probe(path: str, port: int, figures: Figures) -> str:
    return f"""\
      httpGet: {{path: {path}, port: {port}}}
      periodSeconds: {_seconds_up(figures.period_ms)}
      timeoutSeconds: {_seconds_up(figures.timeout_ms)}
      failureThreshold: {figures.failure_threshold}"""


def _compose(matrix: ProbeMatrix, port: int, host: str, stop_seconds: int) -> str:
    asked = matrix.orchestrator
    origin = f"http://{url_host(host)}:{port}"
    return f"""\
# Compose has one health check, readiness: others wait for it with "condition: service_healthy", and Compose restarts
# nothing for it. What does restart unhealthy containers (Swarm, ECS, autoheal) must be given --live in place of
# --ready, or an outage of a dependency restarts healthy processes. The image needs the command idkmesh (pip install
# idkmesh, or a wheel of it). The timeout has {_span(_START_MS)} more than the matrix, for the start of the command.
services:
  app:
    healthcheck:
      test: ["CMD", "idkmesh", "healthcheck", "--ready", {json.dumps(origin)}]
      interval: {_span(asked.readiness.period_ms)}
      timeout: {_span(asked.readiness.timeout_ms + _START_MS)}
      retries: {asked.readiness.failure_threshold}
      start_period: {_span(_patience_ms(asked.startup))}
    stop_grace_period: {stop_seconds}s
"""


def _systemd(matrix: ProbeMatrix, stop_seconds: int) -> str:
    budget = matrix.watchdog
    return f"""\
# For the unit of the service. systemd asks nothing: the service tells it READY=1, and WATCHDOG=1 while no part of it
# is overdue. The commands of idkmesh do so, and programs that end in serve_until_signal; any other must (sd_notify),
# or systemd ends it after TimeoutStartSec. A dependency that is down restarts nothing.
[Service]
Type=notify
NotifyAccess=main
TimeoutStartSec={_span(_patience_ms(matrix.orchestrator.startup))}
WatchdogSec={_span(budget.interval_ms * budget.max_missed_ticks)}
TimeoutStopSec={stop_seconds}s
Restart=on-failure
"""


def _stop_seconds(drain_ms: int) -> int:
    return max(_STOP_SECONDS, _seconds_up(drain_ms + _STOP_MARGIN_MS))


def _patience_ms(figures: Figures) -> int:
    """Return after how long without a success the orchestrator acts."""
    return figures.period_ms * figures.failure_threshold


def _seconds_up(ms: int) -> int:
    return -(-ms // 1000)


def _span(ms: int) -> str:
    """Return a time as Compose and systemd both read it, exact."""
    seconds, rest = divmod(ms, 1000)
    return f"{ms}ms" if rest else f"{seconds}s"


FORMATS: Final = ("kubernetes", "compose", "systemd")
"""The formats by their names on the command line."""
