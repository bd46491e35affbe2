"""A dependency that is as a file says: ``python dependency.py PORT FILE``. Words: ok, slow, flap, rubbish."""

import http.server
import os
import sys
import time
from itertools import count
from pathlib import Path

TURNS = count()
PLACE = Path(sys.argv[2])


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each question."""

    def do_GET(self) -> None:
        """Answer as the file says."""
        word = PLACE.read_text(encoding="ascii").strip()
        if word == "rubbish":
            self.wfile.write(os.urandom(512))
            return
        if word == "slow":
            time.sleep(1.6)
        self.send_response(503 if word == "flap" and next(TURNS) % 2 == 0 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815  the base class names it

    def log_message(self, *_: object) -> None:
        """Say nothing."""


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
