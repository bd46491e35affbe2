"""IDKMesh tells the truth about a node, and serves it safely."""

import importlib

TYPE_CHECKING = False
"""As type checkers know it. The module that has it takes milliseconds, in which a signal meets no handler of ours."""

__version__ = "0.1.0"

__all__ = [
    "BoundedHTTPServer",
    "BoundedWSGIServer",
    "ProbeMatrix",
    "RequestLimiter",
    "ServiceLimits",
    "Watchdog",
    "serve_until_signal",
    "use_short_switch_interval",
]

_MODULES = {
    "ProbeMatrix": "health.model",
    "RequestLimiter": "service_runtime",
    "ServiceLimits": "service_runtime",
    "Watchdog": "health.watchdog",
}
"""Where a name stands that is not the server's."""

if TYPE_CHECKING:
    from idkmesh.health.model import ProbeMatrix
    from idkmesh.health.watchdog import Watchdog
    from idkmesh.httpd import BoundedHTTPServer, BoundedWSGIServer, serve_until_signal, use_short_switch_interval
    from idkmesh.service_runtime import RequestLimiter, ServiceLimits


def __getattr__(name: str) -> object:
    """Import the public library when it is used: ``idkmesh --help`` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'httpd')}"), name)
