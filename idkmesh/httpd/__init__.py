"""A hardened HTTP server on the standard library: a drop-in for `http.server.ThreadingHTTPServer`."""

import importlib
from typing import TYPE_CHECKING

__all__ = ["BoundedHTTPServer", "BoundedWSGIServer", "serve_until_signal", "use_short_switch_interval"]

if TYPE_CHECKING:
    from idkmesh.httpd.server import BoundedHTTPServer, BoundedWSGIServer, use_short_switch_interval
    from idkmesh.httpd.signals import serve_until_signal


def __getattr__(name: str) -> object:
    """Import the server when it is used: a command catches signals first, with `idkmesh.httpd.signals` alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "signals" if name == "serve_until_signal" else "server"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
