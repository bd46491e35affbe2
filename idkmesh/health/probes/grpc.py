"""``grpc``: ask ``grpc.health.v1.Health/Check`` (HL-4.10). Its first probe loads the extra ``grpc``."""

from __future__ import annotations

import importlib
import os
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from idkmesh.health.probes.abandonable import Abandonable
from idkmesh.health.probes.probe import DeadlineProbe
from idkmesh.health.probes.words import could_not_run, failed

if TYPE_CHECKING:
    from types import ModuleType

    from idkmesh.health.model import Grpc
    from idkmesh.health.probes.probe import Deadline

OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),  # the environment names no proxy for a probe
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own: no other's back-off, no other's good state
    ("grpc.max_receive_message_length", 64 * 1024),
)

SPARE_DESCRIPTORS: Final = 16
"""What must be free before gRPC is asked. A run takes five; without one the library ends the whole process."""

MARGIN_SECONDS: Final = 0.05
MARGIN_SHARE: Final = 1 / 8
"""How much earlier than the run the call ends, and the same as a share of a short timeout: a call that gRPC ends itself
is not abandoned."""

WORDS: Final = {"DEADLINE_EXCEEDED": "timeout"}
"""What we call otherwise than gRPC does; its other status names are words of its protocol."""


class GrpcProbe(DeadlineProbe):
    """Opens a channel, asks for one service, and closes. The library can be given a deadline, yet it is not ours."""

    def __init__(self, spec: Grpc) -> None:
        self._spec = spec
        self._out = Abandonable("probe-grpc")
        # Here and not in a run: to load it takes longer than some deadlines.
        self._modules = _loaded()
        super().__init__(self._out)

    def attempt(self, deadline: Deadline) -> str:
        """Ask once."""
        if isinstance(self._modules, str):
            raise could_not_run(self._modules)
        grpc, messages, service = self._modules
        status = self._out.call(lambda: self._asked(grpc, messages, service, deadline), deadline)
        if status != "SERVING":
            raise failed(status)
        return status

    def _asked(self, grpc: ModuleType, messages: ModuleType, service: ModuleType, deadline: Deadline) -> str:
        _want_descriptors()
        with self._channel(grpc) as channel:
            request = messages.HealthCheckRequest(service=self._spec.service)
            left = deadline.wait()
            timeout = left - min(MARGIN_SECONDS, left * MARGIN_SHARE)
            try:
                response = service.HealthStub(channel).Check(request, timeout=timeout)
            except grpc.RpcError as error:
                name = error.code().name
                raise failed(WORDS.get(name, name)) from None
        statuses = messages.HealthCheckResponse.ServingStatus
        return str(statuses.Name(response.status)) if response.status in statuses.values() else "no status known"

    def _channel(self, grpc: ModuleType) -> Any:  # noqa: ANN401  grpcio has no types
        target = f"dns:///{self._spec.target}"  # or a host would be taken for a scheme
        if not self._spec.tls:
            return grpc.insecure_channel(target, options=OPTIONS)
        roots = system_roots()
        if roots is None:
            raise could_not_run("no certificates on this system")
        credentials = grpc.ssl_channel_credentials(root_certificates=roots)
        return grpc.secure_channel(target, credentials, options=OPTIONS)


def _loaded() -> tuple[ModuleType, ModuleType, ModuleType] | str:
    """Return what the probe needs of the extra, or why there is none."""
    names = ("grpc", "grpc_health.v1.health_pb2", "grpc_health.v1.health_pb2_grpc")
    try:
        grpc, messages, service = [importlib.import_module(name) for name in names]
    except ImportError:
        return "needs the extra grpc"
    except Exception as error:  # noqa: BLE001  versions that do not fit each other: each package has its own error
        return f"the extra grpc does not load: {type(error).__name__}"
    return grpc, messages, service


def _want_descriptors() -> None:
    """Raise OSError where the process is about to run out. Another thread may still take them in between."""
    with ExitStack() as stack:
        for _ in range(SPARE_DESCRIPTORS):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))


def system_roots() -> bytes | None:
    """Return the system's certificates as PEM, or None where it has none: gRPC brings its own and would use them."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return Path(paths.cafile).read_bytes()
    # A folder holds each under the hash of its name, which is how OpenSSL finds it.
    files = sorted(Path(paths.capath).glob("????????.[0-9]")) if paths.capath else []
    return b"".join(file.read_bytes() for file in files) or None
