"""A small server that speaks Nacos's wire protocol, with the message classes of its SDK.

It does what a server of Nacos 2 does with naming: it takes connections, keeps subscriptions of each, and pushes a whole
description to those that subscribe to a service when that changes. It runs in a process of its own, whose input
is what a test wants done, a line each (see ``nacos_hands``); it ends with its input.
"""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from v2.nacos.naming.model.naming_request import NotifySubscriberRequest
from v2.nacos.naming.model.naming_response import QueryServiceResponse, SubscribeServiceResponse
from v2.nacos.naming.model.service import Service
from v2.nacos.transport.grpcauto.nacos_grpc_service_pb2 import Metadata, Payload
from v2.nacos.transport.grpcauto.nacos_grpc_service_pb2_grpc import (
    BiRequestStreamServicer,
    RequestServicer,
    add_BiRequestStreamServicer_to_server,
    add_RequestServicer_to_server,
)
from v2.nacos.transport.model.internal_request import ClientDetectionRequest, ConnectResetRequest, SetupAckRequest
from v2.nacos.transport.model.internal_response import ErrorResponse, HealthCheckResponse, ServerCheckResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

GRPC_OFFSET = 1_000
Key = tuple[str, str, str]
"""Namespace, group, name."""


def two_ports() -> int:
    """Return a port that is free, as is the one 1000 above it."""
    while True:
        with socket.socket() as http, socket.socket() as beside:
            http.bind(("127.0.0.1", 0))
            port = int(http.getsockname()[1])
            try:
                beside.bind(("127.0.0.1", port + GRPC_OFFSET))
            except OSError:
                continue
            return port


def payload(message: Any) -> Payload:
    kind = message.get_request_type() if hasattr(message, "get_request_type") else message.get_response_type()
    return raw(kind, message.model_dump_json(by_alias=True).encode())


def raw(kind: str, body: bytes) -> Payload:
    return Payload(metadata=Metadata(type=kind), body=AnyMessage(value=body))


class NacosServer(RequestServicer, BiRequestStreamServicer):  # type: ignore[misc]  # the SDK has no types
    """One server."""

    def __init__(self) -> None:
        self.port = two_ports()
        self.negotiates = True
        """It confirms the set-up of a connection, as later ones do."""
        self.token = ""
        self.services: dict[Key, dict[str, Any]] = {}
        self.acknowledged: list[str] = []
        self.asked: list[str] = []
        self.refuses: dict[str, int] = {}
        """Error codes by the name of a service."""
        self.says = "refused"
        """The text of its errors."""
        self.password = "right"
        self.held: list[str] = []
        """Services whose answers wait; all where none is named."""
        self.late = False
        """An answer that was held says what is there when it leaves, not when it was asked for."""
        self.holds = threading.Event()
        """Answers to subscriptions wait for this."""
        self.holds.set()
        self.logins: list[dict[str, list[str]]] = []
        self._written = 1_700_000_000_000
        self._streams: dict[str, queue.SimpleQueue[Payload | None]] = {}
        self._subscribed: dict[str, set[Key]] = {}
        self._lock = threading.Lock()
        _serve_web(self)
        self._server: Any = None
        self.start()

    # --- hands of a test ------------------------------------------------------------------------------------------

    def put(
        self,
        name: str,
        *hosts: Any,
        namespace: str = "public",
        group: str = "DEFAULT_GROUP",
        pushes: bool = True,
        **more: Any,
    ) -> None:
        """Have a service with these instances, and push that."""
        key = (namespace, group, name)
        with self._lock:
            self._written += 1
            info = {"name": name, "groupName": group, "clusters": "", "lastRefTime": self._written}
            self.services[key] = {**info, "hosts": list(hosts), **more}
        if pushes:
            self.push(key)

    def anew(self) -> None:
        """Be as at first, with no connection."""
        self.end_streams()
        self.forget()
        self.holds.set()
        self.negotiates, self.token, self.says, self.password = True, "", "refused", "right"
        self.held, self.late = [], False
        for kept in (self.services, self.refuses, self.acknowledged, self.asked, self.logins):
            kept.clear()
        if self._server is None:
            self.start()

    def be(self, **what: Any) -> None:
        """Be another one from now on: the attributes that have a text above, and ``negotiates`` and ``token``."""
        self.__dict__.update(what)

    def hold(self, *, on: bool) -> None:
        """Keep answers to subscriptions back, or no more."""
        (self.holds.clear if on else self.holds.set)()

    def push_as(self, name: str, body: str) -> None:
        """Push this, whatever it is."""
        self.send(raw(name, body.encode()))

    def told(self) -> dict[str, Any]:
        """Return what was seen."""
        with self._lock:
            subscribed = sorted({key for keys in self._subscribed.values() for key in keys})
            connections = len(self._streams)
        kept = {"acknowledged": self.acknowledged, "asked": self.asked, "logins": self.logins}
        return {**kept, "subscribed": subscribed, "connections": connections}

    def push(self, key: Key) -> None:
        """Push a service to whoever subscribes to it."""
        with self._lock:
            info = self.services[key]
            kind = NotifySubscriberRequest(namespace=key[0], groupName=key[1], serviceName=key[2], serviceInfo=None)
            body = {**kind.model_dump(), "serviceInfo": info, "requestId": f"push-{time.monotonic_ns()}"}
            for peer, keys in self._subscribed.items():
                if key in keys:
                    self._streams[peer].put(raw("NotifySubscriberRequest", json.dumps(body).encode()))

    def send(self, message: Payload | Any) -> None:
        """Send something to each connection."""
        with self._lock:
            for stream in self._streams.values():
                stream.put(message if isinstance(message, Payload) else payload(message))

    def detect(self) -> None:
        """Ask each connection whether it is there."""
        self.send(ClientDetectionRequest(requestId="detect"))

    def reset(self) -> None:
        """Ask each connection to go to another server."""
        self.send(ConnectResetRequest(serverIp=self.says, serverPort=self.says, requestId="reset"))

    def forget(self) -> None:
        """Know no connection any more, without a word."""
        with self._lock:
            self._streams.clear()
            self._subscribed.clear()

    def end_streams(self) -> None:
        """End each connection's stream in good order."""
        with self._lock:
            for stream in self._streams.values():
                stream.put(None)

    def start(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
        add_RequestServicer_to_server(self, self._server)
        add_BiRequestStreamServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"127.0.0.1:{self.port + GRPC_OFFSET}")
        self._server.start()

    def stop(self) -> None:
        self.end_streams()
        self._server.stop(0).wait(30)
        self._server = None
        self.forget()

    # --- the protocol ---------------------------------------------------------------------------------------------

    def request(self, request: Payload, context: Any) -> Payload:
        kind, said = request.metadata.type, json.loads(request.body.value)
        self.asked.append(kind)
        if kind == "ServerCheckRequest":
            return payload(ServerCheckResponse(connectionId="1", supportAbilityNegotiation=self.negotiates))
        with self._lock:
            known = self._subscribed.get(context.peer())
        if known is None:
            return payload(ErrorResponse(resultCode=500, errorCode=301, message=self.says))
        if kind == "HealthCheckRequest":
            return payload(HealthCheckResponse())
        if self.token and request.metadata.headers.get("accessToken") != self.token:
            return payload(ErrorResponse(resultCode=500, errorCode=403, message=self.says))
        code = self.refuses.get(said["serviceName"])
        if code is not None:
            return payload(ErrorResponse(resultCode=500, errorCode=code, message=self.says))
        return self._naming(kind, said, known)

    def _naming(self, kind: str, said: dict[str, Any], known: set[Key]) -> Payload:
        key = (said["namespace"], said["groupName"], said["serviceName"])
        with self._lock:
            empty = {"name": key[2], "groupName": key[1], "clusters": "", "hosts": [], "lastRefTime": self._written}
            info = self.services.get(key, empty)
            if kind == "SubscribeServiceRequest":
                (known.add if said["subscribe"] else known.discard)(key)
        if not self.held or key[2] in self.held:
            self.holds.wait(30)
        if self.late:
            info = self.services.get(key, empty)
        answer = SubscribeServiceResponse if kind == "SubscribeServiceRequest" else QueryServiceResponse
        shape = answer(serviceInfo=Service(name=key[2], groupName=key[1]))
        return raw(shape.get_response_type(), json.dumps({**shape.model_dump(), "serviceInfo": info}).encode())

    def requestBiStream(self, requests: Iterator[Payload], context: Any) -> Iterator[Payload]:
        sends: queue.SimpleQueue[Payload | None] = queue.SimpleQueue()
        peer = context.peer()
        threading.Thread(target=self._hear, args=(requests, peer, sends), daemon=True).start()
        while (sent := sends.get()) is not None:
            yield sent
        with self._lock:
            self._streams.pop(peer, None)
            self._subscribed.pop(peer, None)

    def _hear(self, requests: Iterator[Payload], peer: str, sends: queue.SimpleQueue[Payload | None]) -> None:
        try:
            for each in requests:
                if each.metadata.type == "ConnectionSetupRequest":
                    with self._lock:
                        self._streams[peer], self._subscribed[peer] = sends, set()
                    if self.negotiates:
                        sends.put(payload(SetupAckRequest(abilityTable={})))
                else:
                    self.acknowledged.append(f"{each.metadata.type} {json.loads(each.body.value)['requestId']}")
        except grpc.RpcError:
            pass
        finally:
            sends.put(None)


def _serve_web(server: NacosServer) -> None:
    """Serve the server's other port, where a user logs in."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = parse_qs(urlsplit(self.path).query)
            server.logins.append(given)
            right = given.get("password") == [server.password]
            body = (
                json.dumps({"accessToken": server.token, "tokenTtl": 18_000}).encode()
                if right
                else server.says.encode()
            )
            self.send_response(200 if right else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    web = ThreadingHTTPServer(("127.0.0.1", server.port), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()


def main() -> None:
    """Do what is wanted, a line each, and answer each with a line."""
    server = NacosServer()
    _say(server.port)
    for line in sys.stdin:
        do, listed, named = json.loads(line)
        _say(getattr(server, do)(*listed, **named))


def _say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
