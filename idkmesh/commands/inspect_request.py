"""``idkmesh inspect-request``: how the request rules judge some bytes (CT-6.3)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from idkmesh import console
from idkmesh.commands.inputs import warn_of_slips
from idkmesh.console import EXIT_FAILED, EXIT_USAGE, CommandError
from idkmesh.httpd.inspection import inspect_request
from idkmesh.httpd.request import HeadLimits
from idkmesh.service_runtime import ServiceLimits, SettingError


def inspect_request_file(file: str) -> int:
    """Print the inspection document of a file's bytes; return 0 if they are accepted, 1 if not (CT-6.3)."""
    warn_of_slips()
    try:
        limits = ServiceLimits.from_environ(os.environ, {})
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if file == "-" and sys.stdin is None:
        raise CommandError("cannot read standard input: it is closed", EXIT_USAGE)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CommandError(f"cannot read {file}: {console.reason(error)}", EXIT_USAGE) from None
    head_limits = HeadLimits(limits.max_header_fields, limits.max_header_bytes)
    document = inspect_request(data, head_limits, limits.max_body_bytes)
    console.say(json.dumps(document, indent=2))
    return 0 if document["verdict"] == "accepted" else EXIT_FAILED
