"""Hands of a test on the small Nacos server, which is a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import signal

WHY_NOT = "" if find_spec("v2") else "nacos-sdk-python is not installed (idkmesh[nacos])"
"""Why no test can have a server, empty where it can."""


def host(ip: str, port: int, **more: Any) -> dict[str, Any]:
    """Return an instance as a server writes it."""
    usual = {"weight": 1.0, "healthy": True, "enabled": True, "ephemeral": True, "clusterName": "DEFAULT"}
    return {"ip": ip, "port": port, **usual, "metadata": {}, **more}


class Nacos:
    """One server, whose methods are those of ``nacos_server.NacosServer``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.topology.nacos_server"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._line())
        self.address = f"127.0.0.1:{self.port}"

    def do(self, method: str, *listed: Any, **named: Any) -> Any:
        """Have something done, and return what it returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, listed, named]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def put(self, name: str, *hosts: Any, **more: Any) -> None:
        self.do("put", name, *hosts, **more)

    def told(self) -> Any:
        return self.do("told")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
