"""The kinds of connections, and what each must come to. Pure: ports and token in, bytes and expectations out.

About half are good, a fifth refused or malformed, and the others slow, aborted, or streams.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scripts.bench.benchlib.messages import parse, request
from scripts.lib.soak.tower import REQUEST_SECONDS, TARGET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.bench.benchlib.messages import Response

INVOCATION: Final = "invocation"
EARLY: Final = 0.05
"""How much before its deadline a slow connection may seem to end: clocks are read at different moments."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of connection.

    ``pieces`` are sent so many seconds after the connect. Then the client reads to the end; or, ``leave``, resets the
    connection at once; or, ``half``, half-closes first. ``status`` None means that it is closed without a byte.
    ``holds`` must stand in the response's body. ``stream``: it leaves by a reset once the first of ``holds`` is there.
    ``least`` is how many seconds it lasts at least.
    """

    name: str
    group: str
    pieces: Sequence[tuple[float, bytes]]
    share: int = 1
    port: int = 0
    status: int | None = None
    holds: bytes = b""
    leave: bool = False
    half: bool = False
    stream: bool = False
    least: float = 0.0
    head_only: bool = False


def fault_of(kind: Kind, received: bytes, end: str, took: float) -> str | None:
    """Return what is wrong with how a connection came out, None where it is as expected.

    ``end`` is "eof", "reset", "left" (by the client, as planned), or "late" (nothing came of it in time).
    """
    if end == "late":
        return "it never ended"
    if kind.leave:
        return None
    if took < kind.least - EARLY:
        return f"it ended after {took:.2f} s, before its deadline"
    found = parse(received)
    if kind.status is None or found is None:
        expected = kind.status is None and not received
        return None if expected else f"{len(received)} bytes where {kind.status or 'none'} was expected, {end}"
    if found.status != kind.status:
        return f"status {found.status} instead of {kind.status}"
    return _fault_of_content(kind, found, end)


def _fault_of_content(kind: Kind, found: Response, end: str) -> str | None:
    """Return what is wrong with a response of the right status."""
    if end != ("left" if kind.stream else "eof"):
        return f"a response, then {end}"
    if kind.head_only:
        return "content in the answer to HEAD" if found.body else None
    if not kind.stream and not found.complete:
        return f"{len(found.body)} bytes of content, {found.headers.get('content-length')} declared"
    return None if kind.holds in found.body else "other content than expected"


def deck(kinds: Sequence[Kind], number: int) -> list[Kind]:
    """Return the connections of one deck, each kind as often as its share, in an order that its number alone gives."""
    cards = [kind for kind in kinds for _ in range(kind.share)]
    random.Random(number).shuffle(cards)  # noqa: S311  an order that can be had again, not a secret
    return cards


def all_kinds(port: int, router: int, token: str, epoch: str) -> list[Kind]:
    """Return every kind, for a tower at these ports; ``epoch`` is its event store's."""
    own = [("X-IDKMesh-UI-Token", token)]
    return [
        *_good(port, own),
        *_routed(router, token),
        *_refused(port, own),
        *_malformed(port),
        *_slow(port, own),
        *_aborted(port, own),
        *_streams(port, own, epoch),
    ]


def _at_once(data: bytes) -> Sequence[tuple[float, bytes]]:
    return ((0.0, data),)


def _post(port: int, fields: Sequence[tuple[str, str]], body: bytes, declared: int | None = None) -> bytes:
    length = str(len(body) if declared is None else declared)
    head = [*fields, ("Content-Type", "message/http"), ("Content-Length", length)]
    return request(port, "/api/v1/inspect/http-request", head, "POST") + body


def _good(port: int, own: Sequence[tuple[str, str]]) -> list[Kind]:
    asked: list[tuple[str, bytes, int]] = [
        ("/healthz", b"ok", 6),
        ("/livez", b"ok", 4),
        ("/readyz", b'"ready"', 8),
        ("/startupz", b'"status"', 2),
        ("/", b"<!doctype html>", 2),
        ("/api/v1/status", b"idkmesh-control-tower-status", 6),
        ("/api/v1/node", b"idkmesh-node", 2),
        ("/api/v1/topology", b"{", 2),
        ("/api/v1/dependencies", b'"agent"', 3),
        ("/api/v1/modules/echo", b'"echo"', 3),
        ("/api/v1/events?limit=5", b"items", 3),
        ("/api/v1/openapi.json", b"3.1.", 1),
        ("/metrics", b"idkmesh_", 1),
    ]
    found = [
        Kind(
            name=f"GET {path}",
            group="good",
            port=port,
            pieces=_at_once(request(port, path, own)),
            status=200,
            holds=holds,
            share=share,
        )
        for path, holds, share in asked
    ]
    head = _at_once(request(port, "/api/v1/status", own, "HEAD"))
    found.append(Kind(name="HEAD", group="good", port=port, pieces=head, status=200, head_only=True))
    body = _at_once(_post(port, own, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
    found.append(Kind(name="POST inspect", group="good", port=port, pieces=body, status=200, holds=b"{", share=3))
    return found


def _routed(router: int, token: str) -> list[Kind]:
    body = json.dumps({**TARGET, "input": "soak"}).encode()
    head = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
    path = "/agent/v1/invocations"
    known = request(router, path, [*head, ("Content-Length", str(len(body)))], "POST") + body
    other = body.replace(b"r1", b"r2")
    unknown = request(router, path, [*head, ("Content-Length", str(len(other)))], "POST") + other
    return [
        Kind(name=INVOCATION, group="good", port=router, pieces=_at_once(known), status=200, holds=b"soak", share=3),
        Kind(name="router /readyz", group="good", port=router, pieces=_at_once(request(router, "/readyz")), status=200),
        Kind(
            name="invocation of no release",
            group="refused",
            port=router,
            pieces=_at_once(unknown),
            status=503,
            holds=b"AGENT_UNAVAILABLE",
        ),
        Kind(name="router 401", group="refused", port=router, pieces=_at_once(request(router, "/metrics")), status=401),
    ]


def _refused(port: int, own: Sequence[tuple[str, str]]) -> list[Kind]:
    other = request(port, "/api/v1/status", own).replace(b"127.0.0.1:", b"example.org:")
    rows: list[tuple[str, bytes, int, bytes]] = [
        ("no token", request(port, "/api/v1/status"), 401, b"unauthorized"),
        ("no such path", request(port, "/nothing", own), 404, b"not_found"),
        ("method", request(port, "/api/v1/status", own, "DELETE"), 405, b"method_not_allowed"),
        ("foreign host", other, 403, b"forbidden_host"),
        ("foreign origin", request(port, "/", [("Origin", "http://a.example")]), 403, b"forbidden_origin"),
        ("bad cursor", request(port, "/api/v1/events?cursor=x", own), 400, b"invalid_request"),
        ("no length", request(port, "/api/v1/inspect/http-request", own, "POST"), 415, b"unsupported_media_type"),
        ("too large", _post(port, own, b"", 1 << 30), 413, b"payload_too_large"),
    ]
    return [
        Kind(name=name, group="refused", port=port, pieces=_at_once(data), status=status, holds=holds)
        for name, data, status, holds in rows
    ]


def _malformed(port: int) -> list[Kind]:
    host = b"Host: 127.0.0.1:%d\r\n" % port
    get = b"GET /readyz HTTP/1.1\r\n"
    rows: list[tuple[str, bytes, int]] = [
        ("no host", get + b"\r\n", 400),
        ("two hosts", get + host + host + b"\r\n", 400),
        ("space before the colon", get + host + b"X : y\r\n\r\n", 400),
        ("folded", get + host + b"X: y\r\n z\r\n\r\n", 400),
        ("length and chunked", get + host + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("chunked", get + host + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        ("version", b"GET / HTTP/2.0\r\n" + host + b"\r\n", 505),
        ("bytes", bytes(range(128, 256)) + b"\r\n\r\n", 400),
        ("long line", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n", 414),
        ("many fields", get + host + b"X: y\r\n" * 110 + b"\r\n", 431),
    ]
    return [
        Kind(name=name, group="malformed", port=port, pieces=_at_once(data), status=status, half=True)
        for name, data, status in rows
    ]


def _slow(port: int, own: Sequence[tuple[str, str]]) -> list[Kind]:
    whole = request(port, "/api/v1/status", own)
    steps = [(0.05 * number, whole[at : at + 20]) for number, at in enumerate(range(0, len(whole), 20))]
    body = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    head = _post(port, own, b"", len(body))
    slowly = [(0.0, head), *((0.1 * number, body[at : at + 6]) for number, at in enumerate(range(0, len(body), 6)))]
    late = REQUEST_SECONDS
    return [
        Kind(name="half a head", group="slow", port=port, pieces=_at_once(whole[:20]), least=late),
        Kind(name="half a body", group="slow", port=port, pieces=_at_once(head + b"G"), status=408, least=late),
        Kind(name="trickled head", group="slow", port=port, pieces=steps, status=200),
        Kind(name="trickled body", group="slow", port=port, pieces=slowly, status=200, holds=b"{"),
    ]


def _aborted(port: int, own: Sequence[tuple[str, str]]) -> list[Kind]:
    whole = request(port, "/api/v1/status", own)
    rows: list[tuple[str, Sequence[tuple[float, bytes]], int]] = [
        ("reset at once", ((0.0, b""),), 2),
        ("reset in a head", _at_once(whole[:20]), 3),
        ("reset after a head", _at_once(whole), 4),
        ("reset in a body", _at_once(_post(port, own, b"x", 100_000)), 3),
        ("reset a little later", ((0.0, whole[:20]), (0.05, whole[20:])), 2),
    ]
    return [
        Kind(name=name, group="aborted", port=port, pieces=pieces, leave=True, share=share)
        for name, pieces, share in rows
    ]


def _streams(port: int, own: Sequence[tuple[str, str]], epoch: str) -> list[Kind]:
    path = "/api/v1/events/stream"
    replay = request(port, path, [*own, ("Last-Event-ID", f"{epoch}.0")])
    elsewhere = request(port, path, [*own, ("Last-Event-ID", f"{'0' * 16}.1")])
    return [
        Kind(
            name="stream from now on",
            group="streams",
            port=port,
            pieces=_at_once(request(port, path, own)),
            status=200,
            holds=b":",  # a heartbeat, or an event
            stream=True,
            share=3,
        ),
        Kind(
            name="stream from the first event",
            group="streams",
            port=port,
            pieces=_at_once(replay),
            status=200,
            holds=f"id: {epoch}.{1:012d}\n".encode(),
            stream=True,
            share=4,
        ),
        Kind(name="stream of another store", group="streams", port=port, pieces=_at_once(elsewhere), status=400),
    ]
