"""A minimal nginx in a directory of its own: one worker, no keep-alive, no log, the same constant response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import app
from .processes import HOST

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = """\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    keepalive_timeout 0;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    default_type "{content_type}";
    server {{
        listen {host}:{port};
        root {directory};
{headers}
        location / {{ return 200 '{body}'; }}
        location = /large {{ }}
    }}
}}
"""


def configure(directory: Path, port: int, body: bytes, large_bytes: int) -> Path:
    """Write the configuration and the large file into a directory and return the configuration's path."""
    directory.chmod(0o755)  # the worker may run as another user, and reads the large file here
    (directory / "large").write_bytes(b"x" * large_bytes)
    headers = "\n".join(f'        add_header {name} "{value}";' for name, value in app.PROGRAM_HEADERS)
    path = directory / "nginx.conf"
    text = TEMPLATE.format(
        directory=directory,
        host=HOST,
        port=port,
        content_type=app.CONTENT_TYPE,
        headers=headers,
        body=body.decode(),
    )
    path.write_text(text, encoding="utf-8")
    return path
