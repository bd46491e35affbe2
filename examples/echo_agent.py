"""An agent to try a router with: it answers what it is asked. `idkmesh serve echo_agent:Echo --port 9001` runs it."""

from http.server import BaseHTTPRequestHandler


class Echo(BaseHTTPRequestHandler):
    """Answers each POST with its own body."""

    def do_POST(self) -> None:
        """Answer."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
