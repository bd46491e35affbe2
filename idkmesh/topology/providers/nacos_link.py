"""A connection to a Nacos server, of the wire classes of the official SDK. Nothing else imports the SDK (RT-8.1).

Its naming client stands on the same classes, and is passed by (RT-8.2): it keeps what was there when an empty answer
comes, drops a description whose server's clock is behind an older one's, asks anew for what it lost with a connection
after up to 30 s, writes its cache and a log with tokens to files, and tells nobody that its connection is gone.

One thread, with its loop, uses a link.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import aiohttp
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from v2.nacos.common.client_config import ClientConfig
from v2.nacos.common.constants import Constants
from v2.nacos.naming.model.naming_request import ServiceQueryRequest, SubscribeServiceRequest
from v2.nacos.naming.model.naming_response import NotifySubscriberResponse
from v2.nacos.transport.auth_client import AuthClient
from v2.nacos.transport.grpcauto.nacos_grpc_service_pb2 import Metadata, Payload
from v2.nacos.transport.grpcauto.nacos_grpc_service_pb2_grpc import BiRequestStreamStub, RequestStub
from v2.nacos.transport.http_agent import HttpAgent
from v2.nacos.transport.model.internal_request import ConnectionSetupRequest, HealthCheckRequest, ServerCheckRequest
from v2.nacos.transport.model.internal_response import ClientDetectionResponse, ConnectResetResponse

from idkmesh.addresses import url_host
from idkmesh.topology.model import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from idkmesh.topology.providers.nacos_service import NacosSettings

ANSWER_SECONDS: Final = 1.5
"""For an answer, and for a connection from its beginning to the end of its set-up."""

SETTLE_SECONDS: Final = 0.1
"""After the set-up of a connection with a server that does not confirm it. The SDK waits as long."""

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024

MAX_LOGIN_BYTES: Final = 64 * 1024
"""Of the answer to a login, a token in a few members."""

OK: Final = 200
NO_RIGHT: Final = frozenset({401, 403})
BUSY: Final = range(300, 400)
"""The connection is not known any more, or the server is not ready."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class NacosError(Exception):
    """A server did not do what was asked. ``whole``: nothing more can be had of this connection."""

    def __init__(self, cause: Cause, *, whole: bool = True) -> None:
        super().__init__(cause.value)
        self.cause = cause
        self.whole = whole


class _Agent(HttpAgent):  # type: ignore[misc]  # the SDK has no types
    """What the SDK's login asks with. The SDK's own takes an answer of any size, and follows redirects.

    ``cause`` is why the newest answer brings no token, where it brings none.
    """

    cause = Cause.UNREACHABLE

    async def request(self, url: str, method: str, *others: Any) -> tuple[bytes | None, str | None]:  # noqa: ANN401  the SDK's own
        """Return the content of an answer of 200, or else what is wrong. The second of ``others`` are parameters."""
        self.cause = Cause.UNREACHABLE
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=self.default_timeout), auto_decompress=False
                ) as session,
                session.request(
                    method,
                    f"http://{url}?{urlencode(others[1])}",
                    headers={"Accept-Encoding": "identity"},  # packed, it could be of any size
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status != OK:
                    self.cause = Cause.REFUSED
                    return None, "refused"
                content = await _bounded(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, type(error).__name__
        self.cause = Cause.UNREADABLE
        return (None, "too large") if content is None else (content, None)


async def _bounded(stream: aiohttp.StreamReader) -> bytes | None:
    """Return what comes until the end, None where that is more than an answer may have."""
    content = b""
    while len(content) <= MAX_LOGIN_BYTES:
        part = await stream.read(MAX_LOGIN_BYTES)
        if not part:
            return content
        content += part
    return None


class NacosLogin:
    """Has a token for the user of the settings, by the SDK's own login. Shared by all links."""

    def __init__(self, settings: NacosSettings) -> None:
        servers = ",".join(f"{host}:{port}" for host, port in settings.servers)
        config = ClientConfig(servers, username=settings.username, password=settings.password)
        silent = logging.Logger("nacos", logging.CRITICAL + 1)  # noqa: LOG001  of nobody: the SDK logs tokens
        self._agent = _Agent(silent, config.tls_config, ANSWER_SECONDS)
        self._needed = bool(settings.username)
        self._client = AuthClient(silent, config, lambda: config.server_list, self._agent)
        self._one = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """Return the headers that a request needs. Raises :class:`NacosError`."""
        if not self._needed:
            return {}
        async with self._one:
            try:
                token = await self._client.get_access_token(False)  # noqa: FBT003  the SDK's own
            except Exception:  # noqa: BLE001  whatever it is, there is no token; the SDK does not say more
                raise NacosError(self._agent.cause) from None
        return {Constants.ACCESS_TOKEN: str(token)}


class NacosLink:
    """One connection. ``pushed`` takes each description of a service that the server sends by itself.

    ``lost`` is done at its end, with the cause. ``fault`` names the exception of who takes what is sent, if there was
    one.
    """

    def __init__(self, settings: NacosSettings, login: NacosLogin, pushed: Callable[[dict[str, Any]], None]) -> None:
        self.lost: asyncio.Future[Cause] = asyncio.get_running_loop().create_future()
        self.fault: str | None = None
        self._settings = settings
        self._login = login
        self._pushed = pushed
        self._channel: Any = None
        self._stub: Any = None
        self._stream: Any = None
        self._set_up = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    def lose(self, cause: Cause) -> None:
        """Give it up. Only the first reason counts."""
        if not self.lost.done():
            self.lost.set_result(cause)

    async def open(self, host: str, port: int) -> None:
        """Connect to a server, whose gRPC is 1000 above its port. Raises :class:`NacosError`; close it then too."""
        address = f"{url_host(host)}:{port + Constants.GRPC_PORT_OFFSET}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
                self._stub = RequestStub(self._channel)
                await self._channel.channel_ready()
                check = await self._asked(ServerCheckRequest(), {})
                self._stream = BiRequestStreamStub(self._channel).requestBiStream()
                setup = ConnectionSetupRequest(
                    clientVersion=Constants.CLIENT_VERSION,
                    tenant=self._settings.namespace,
                    labels={Constants.LABEL_SOURCE: Constants.LABEL_SOURCE_SDK, Constants.LABEL_MODULE: "naming"},
                    abilityTable={},
                )
                await self._stream.write(_payload(setup, {}))
                self._reader = asyncio.create_task(self._read())
                if check.get("supportAbilityNegotiation") is True:
                    await self._set_up.wait()
                else:
                    await asyncio.sleep(SETTLE_SECONDS)
        except TimeoutError:
            raise NacosError(Cause.UNREACHABLE if self._stream is None else Cause.SILENT) from None
        except grpc.RpcError:
            raise NacosError(Cause.UNREACHABLE) from None
        if self.lost.done():
            raise NacosError(self.lost.result())

    async def subscribe(self, name: str, *, ending: bool = False) -> dict[str, Any]:
        """Have a service's changes pushed, or no more, and return its description as it is."""
        said = await self._naming(
            SubscribeServiceRequest(
                namespace=self._settings.namespace,
                groupName=self._settings.group,
                serviceName=name,
                clusters="",
                subscribe=not ending,
            )
        )
        return {} if ending else _info_of(said)

    async def query(self, name: str) -> dict[str, Any]:
        """Return a service's description as it is."""
        return _info_of(
            await self._naming(
                ServiceQueryRequest(
                    namespace=self._settings.namespace,
                    groupName=self._settings.group,
                    serviceName=name,
                    cluster="",
                    healthOnly=False,
                )
            )
        )

    async def check(self) -> None:
        """Ask whether the server still knows this connection. Raises :class:`NacosError`."""
        await self._asked(HealthCheckRequest(), {})

    async def close(self) -> None:
        """End it."""
        self.lose(Cause.CLOSED)
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._channel is not None:
            await self._channel.close(None)

    async def _naming(self, request: Any) -> dict[str, Any]:  # noqa: ANN401  of the SDK's, which has no types
        request.put_all_headers({"app": "idkmesh"})
        return await self._asked(request, await self._login.headers())

    async def _asked(self, request: Any, headers: Mapping[str, str]) -> dict[str, Any]:  # noqa: ANN401  the same
        try:
            answer = await self._stub.request(_payload(request, headers), timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise NacosError(_cause_of(error.code())) from None
        except grpc.aio.UsageError:  # the channel was closed meanwhile
            raise NacosError(Cause.CLOSED) from None
        said = _body_of(answer)
        code = said.get("errorCode") or (0 if said.get("resultCode") == OK else -1)
        if code or answer.metadata.type == "ErrorResponse":
            if code in NO_RIGHT:
                raise NacosError(Cause.REFUSED, whole=False)
            if code in BUSY:
                raise NacosError(Cause.LOST)
            raise NacosError(Cause.UNREADABLE, whole=False)
        return said

    async def _read(self) -> None:
        """Take what the server sends by itself, until the end."""
        try:
            while (sent := await self._stream.read()) is not grpc.aio.EOF:
                await self._take(sent)
            self.lose(Cause.UNREACHABLE)
        except grpc.aio.AioRpcError as error:
            self.lose(_cause_of(error.code()))
        except NacosError as error:
            self.lose(error.cause)
        except Exception as error:  # noqa: BLE001  whatever it is, nothing more will be heard
            self.fault = type(error).__name__
            self.lose(Cause.FAULT)

    async def _take(self, sent: Any) -> None:  # noqa: ANN401  a payload
        kind = sent.metadata.type
        said = _body_of(sent)
        answer: Any = None
        if kind == "NotifySubscriberRequest":
            if not self.lost.done():
                self._pushed(_info_of(said))
            answer = NotifySubscriberResponse()
        elif kind == "ClientDetectionRequest":
            answer = ClientDetectionResponse()
        elif kind == "SetupAckRequest":
            self._set_up.set()
        elif kind == "ConnectResetRequest":  # it wants to be left, for another one
            answer = ConnectResetResponse()
            self.lose(Cause.LOST)
        if answer is not None:
            answer.set_request_id(str(said.get("requestId", "")))
            await self._stream.write(_payload(answer, {}))


def _payload(message: Any, headers: Mapping[str, str]) -> Payload:  # noqa: ANN401  a message of the SDK's
    kind = message.get_request_type() if hasattr(message, "get_request_type") else message.get_response_type()
    body = message.model_dump_json(by_alias=True, exclude_none=True).encode()
    return Payload(metadata=Metadata(type=kind, headers=dict(headers)), body=AnyMessage(value=body))


def _body_of(payload: Any) -> dict[str, Any]:  # noqa: ANN401  the same
    """Return what a payload says. Raises :class:`NacosError` where nobody can read it: then nothing is known."""
    try:
        said = json.loads(payload.body.value)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise NacosError(Cause.UNREADABLE)
    return said


def _info_of(said: Mapping[str, Any]) -> dict[str, Any]:
    info = said.get("serviceInfo")
    if not isinstance(info, dict):
        raise NacosError(Cause.UNREADABLE)
    return info


def _cause_of(code: Any) -> Cause:  # noqa: ANN401  a status of gRPC's
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Cause.SILENT
    if code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
        return Cause.REFUSED
    return Cause.UNREACHABLE
