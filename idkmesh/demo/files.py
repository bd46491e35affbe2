"""The files of the demo, as a user would write them (DM-1.4). Pure: a site in, texts out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from idkmesh.demo.settings import ADDRESS, AGENT, HEARTBEAT_FILE, REPLICAS

if TYPE_CHECKING:
    from idkmesh.demo.settings import Site

MATRIX: Final = "matrix.yaml"
MODULES: Final = "modules.yaml"
ROUTER: Final = "router.yaml"
RELEASES: Final = "releases.json"
WEB_MATRIX: Final = "web-matrix.yaml"
TOWER_TOKEN: Final = "tower.token"  # noqa: S105  the name of its file
ROUTER_TOKEN: Final = "router.token"  # noqa: S105  as above
CLIENT: Final = "node.json"
"""Written by the tower: its address and token, for the adapter."""
EVENTS: Final = "events.sqlite3"

_ORCHESTRATOR: Final = """\
orchestrator:
  startup:   {period_ms: 1000, timeout_ms: 900, failure_threshold: 30}
  liveness:  {period_ms: 10000, timeout_ms: 1000, failure_threshold: 3}
  readiness: {period_ms: 1000, timeout_ms: 900, failure_threshold: 2}

watchdog: {interval_ms: 1000, max_missed_ticks: 5}
"""


def matrix(site: Site) -> str:
    """Return what the tower depends on."""
    figures, ports = site.figures, site.ports
    times = f"timeout_ms: {figures.timeout_ms}, interval_ms: {figures.interval_ms}, cache_ms: {figures.cache_ms}"
    beat = json.dumps(str(site.folder / HEARTBEAT_FILE))
    rows = [
        "  # Critical: without the store nothing can be sold, so nobody is to be sent here.",
        f"  - {{name: store, critical: true, probe: {_http(ports.store, '/health')},",
        f"     {times}, success_threshold: {figures.back_after}}}",
        "  # Noncritical: without the cache the shop is slow, and open.",
        f"  - {{name: cache, critical: false, probe: {_http(ports.cache, '/health')},",
        f"     {times}}}",
        "  # One replica may be missing: the other serves.",
        *(
            f"  - {{name: web-{step + 1}, critical: false, probe: {_http(ports.web + step, '/livez')},\n     {times}}}"
            for step in range(REPLICAS)
        ),
        "  # The worker touches this file at the top of each pass.",
        f"  - {{name: worker, critical: false, probe: {{file: {{path: {beat}, max_age_ms: {figures.heartbeat_ms}}}}},",
        f"     {times}}}",
        "  # The adapter: what an orchestrator is told of this node. Never critical, since it asks this node.",
        f"  - {{name: adapter, critical: false, probe: {_http(ports.adapter, '/ready')},",
        f"     {times}}}",
    ]
    return _headed("idkmesh-probe-matrix", "What the tower depends on.", f"{_ORCHESTRATOR}\ndependencies:", rows)


def web_matrix(site: Site) -> str:
    """Return what a replica of web depends on: it answers ``/readyz`` from this itself."""
    figures, ports = site.figures, site.ports
    times = f"timeout_ms: {figures.timeout_ms}, interval_ms: {figures.interval_ms}, cache_ms: {figures.cache_ms}"
    rows = [
        f"  - {{name: store, critical: true, probe: {_http(ports.store, '/health')}, {times},",
        f"     success_threshold: {figures.back_after}}}",
        f"  - {{name: cache, critical: false, probe: {_http(ports.cache, '/health')}, {times}}}",
    ]
    return _headed("idkmesh-probe-matrix", "What web depends on.", f"{_ORCHESTRATOR}\ndependencies:", rows)


def modules(site: Site, *, without: str = "") -> str:
    """Return the declaration of the shop's processes, of all but one where ``without`` names one."""
    figures = site.figures
    head = (
        f"supervisor:\n  interval_s: {figures.pass_seconds}\n  cooldown_s: {figures.cooldown_seconds}\n"
        "  lease: {sqlite: {}}\n\nmodules:"
    )
    rows = [row for name, row in _modules(site).items() if name != without]
    return _headed("idkmesh-modules", "The processes of the shop, which the tower starts and owns.", head, rows)


def _modules(site: Site) -> dict[str, str]:
    ports, figures = site.ports, site.figures

    def program(*words: str) -> str:
        return json.dumps([site.python, "-m", *words])

    def row(name: str, kind: str, start: str, asked: str, why: str) -> str:
        replicas = REPLICAS if kind == "stateless" else 1
        return (
            f"  # {why}\n"
            f"  - name: {name}\n    kind: {kind}\n    driver: process\n    replicas: {replicas}\n"
            f"    process: {{argv: {start}, cwd: {json.dumps(str(site.folder))}}}\n{asked}"
        )

    def ready(*words: str) -> str:
        command = program("idkmesh.demo.shop.check", *words)
        return f"    readiness: {{command: {command}, timeoutSecs: {figures.check_seconds}}}"

    web, store, cache = (str(port) for port in (ports.web, ports.store, ports.cache))
    shop = "idkmesh.demo.shop"
    return {
        "web": row(
            "web", "stateless", program(f"{shop}.web", web, cache, store), ready("web", web),
            "A replica is asked whether it makes progress, and not for the store: a restart mends no store.",
        ),
        "store": row(
            "store", "stateful", program(f"{shop}.store", store), f"    port: {store}\n{ready('http', store)}",
            "Stateful: reported, never restarted.",
        ),
        "cache": row(
            "cache", "singleton", program(f"{shop}.cache", cache, store), f"    port: {cache}",
            "Asked by its port alone: that it accepts is all that is known of it here.",
        ),
        "worker": row(
            "worker", "singleton", program(f"{shop}.worker", store), ready("file", HEARTBEAT_FILE),
            "It has no port: its file says that it goes on.",
        ),
    }  # fmt: skip


def router(site: Site) -> str:
    """Return the router's configuration."""
    head = f"listen: {ADDRESS}:{site.ports.router}\ncredentials:"
    rows = [f"  - {{id: demo, token_file: {ROUTER_TOKEN}}}", f"provider:\n  file: {{path: {RELEASES}}}"]
    return _headed("idkmesh-router", "Where the router answers, and where it learns of releases.", head, rows)


def releases(site: Site, numbers: tuple[int, ...] = tuple(range(1, REPLICAS + 1))) -> str:
    """Return the releases: one, with an endpoint for each of the replicas of these numbers."""
    agent, card, release = AGENT
    row: dict[str, Any] = {"agentId": agent, "agentCardVersion": card, "releaseId": release}
    row["endpoints"] = [site.web_origin(number) for number in numbers]
    document = {"schema_version": "0.1", "kind": "idkmesh-releases", "releases": [row]}
    return json.dumps(document, indent=2) + "\n"


def all_files(site: Site) -> dict[str, str]:
    """Return each file's text by name, but for the tokens."""
    found = {
        MATRIX: matrix(site),
        WEB_MATRIX: web_matrix(site),
        MODULES: modules(site),
    }
    if site.routed:
        found |= {ROUTER: router(site), RELEASES: releases(site)}
    return found


def settings_of(site: Site) -> list[str]:
    """Return the limits of the tower, as its flags."""
    figures = site.figures
    return [
        f"--max-concurrent-requests={figures.places}",
        f"--max-connections={figures.connections}",
        f"--request-timeout={figures.request_seconds}",
    ]


def _http(port: int, path: str) -> str:
    return f'{{http: {{url: "http://{ADDRESS}:{port}{path}"}}}}'


def _headed(kind: str, what: str, head: str, rows: list[str]) -> str:
    return f'# {what}\nschema_version: "0.1"\nkind: {kind}\n\n{head}\n' + "\n".join(rows) + "\n"
