"""A hardened HTTP server on the standard library: a drop-in for `http.server.ThreadingHTTPServer`."""

from idkmesh.httpd.server import BoundedHTTPServer, BoundedWSGIServer, use_short_switch_interval

__all__ = ["BoundedHTTPServer", "BoundedWSGIServer", "use_short_switch_interval"]
