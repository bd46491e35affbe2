"""The files under deploy/: what their own tools say of them where these are there, and what they promise anyway."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from idkmesh.cli import build_parser
from idkmesh.inspect_command import inspect_files
from idkmesh.readiness_adapter_command import listen_address
from tests.systemd import needs_systemd, verified

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "readiness-adapter"
CLIENT_FILE: Final = "/run/idkmesh/client.json"
UNITS: Final = ("idkmesh-node.service", "idkmesh-readiness-adapter.service")
NODE_ID: Final = "5b0c1f0e6f2a4c53b0f1d7f8a9c3e210"
COMPOSE: Final = shutil.which("docker-compose")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys have capitals
    parser.read_string((FOLDER / name).read_text(encoding="utf-8"))
    return parser


def services() -> dict[str, Any]:
    found: dict[str, Any] = documents("compose.yaml")[0]["services"]
    return found


def pod() -> dict[str, Any]:
    found: dict[str, Any] = documents("kubernetes.yaml")[1]["spec"]["template"]["spec"]
    return found


def commands() -> dict[str, list[str]]:
    """Return the arguments that each file starts ``idkmesh`` with, by file and part."""
    (adapter,), (node,) = pod()["initContainers"], pod()["containers"]
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    found = {
        "kubernetes adapter": adapter["args"],
        "kubernetes node": node["args"],
        **{f"kubernetes {probe}": node[probe]["exec"]["command"][1:] for probe in probes},
        **{f"compose {name}": service["command"] for name, service in services().items()},
        **{f"compose check of {name}": each["healthcheck"]["test"][2:] for name, each in services().items()},
        **{name: shlex.split(unit(name)["Service"]["ExecStart"])[1:] for name in UNITS},
    }
    image = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    found["Containerfile"] = json.loads(re.findall(r"^CMD (.*)$", image, re.MULTILINE)[0])
    return found


@pytest.mark.parametrize("part", commands())
def test_command_lines(part: str) -> None:
    """RA-10.1: what the files start are commands of this version, with flags that it has."""
    variables = re.compile(r"\$\{NODE_ID[^}]*\}|\$\(NODE_ID\)")
    arguments = build_parser().parse_args([variables.sub(NODE_ID, word) for word in commands()[part]])
    if hasattr(arguments, "node_id"):
        assert arguments.node_id == NODE_ID
        assert listen_address(arguments.listen) == ("127.0.0.1", 18_181)
    if hasattr(arguments, "client_file"):
        assert arguments.client_file == CLIENT_FILE
    if hasattr(arguments, "host"):
        assert arguments.host == "127.0.0.1"
    if getattr(arguments, "url", None) is not None:
        assert re.fullmatch(r"http://127\.0\.0\.1:18181/(startup|live|ready)", arguments.url)


def test_the_sidecar_of_kubernetes() -> None:
    """RA-10.1: a sidecar with limits, the client file read-only, no port, and each probe a command of the node's."""
    (adapter,), (node,) = pod()["initContainers"], pod()["containers"]
    assert adapter["restartPolicy"] == "Always"
    for container in (adapter, node):
        assert container["resources"]["limits"]["memory"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert "ports" not in container
    assert [mount for mount in adapter["volumeMounts"] if mount["readOnly"]] == adapter["volumeMounts"]
    assert [mount["mountPath"] for mount in adapter["volumeMounts"]] == ["/run/idkmesh"]
    for name in ("startup", "liveness", "readiness"):
        probe = node[f"{name}Probe"]
        assert list(probe["exec"]) == ["command"]
        assert probe["timeoutSeconds"] < probe["periodSeconds"]
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert "hostNetwork" not in pod()
    assert documents("kubelet.yaml")[0]["podPidsLimit"] > 0


def test_the_compose_file() -> None:
    """RA-10.1: one namespace, limits, the client file read-only, nothing published."""
    for service in services().values():
        assert service["mem_limit"]
        assert service["pids_limit"] > 0
        assert service["read_only"] is True
        assert not {"ports", "expose", "privileged"} & service.keys()
    adapter = services()["adapter"]
    assert adapter["network_mode"] == "service:node"
    assert adapter["volumes"] == ["client:/run/idkmesh:ro"]


def test_the_units_of_systemd() -> None:
    """RA-10.1: limits, a client file that the adapter cannot write, loopback alone, and ends within their time."""
    for name in UNITS:
        service = unit(name)["Service"]
        assert service["MemoryMax"]
        assert int(service["TasksMax"]) > 0
        assert service["IPAddressDeny"] == "any"
        assert service["IPAddressAllow"] == "localhost"
        assert service["ProtectSystem"] == "strict"
        assert service["User"] == "idkmesh"
    adapter = unit(UNITS[1])
    assert adapter["Service"]["ReadOnlyPaths"] == "-/run/idkmesh"
    assert adapter["Unit"]["PartOf"] == UNITS[0]
    assert adapter["Service"]["RestartPreventExitStatus"] == "2"


def test_the_container_file() -> None:
    """RA-10.1: no root, no port, nothing secret, and a program that gets its signals."""
    lines = (FOLDER / "Containerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines if line and line[0] not in "# "]
    assert "EXPOSE" not in words
    assert "USER 10001:10001" in lines
    assert 'ENTRYPOINT ["idkmesh"]' in lines
    assert not any("TOKEN" in line.upper() for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_our_own_inspection(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """RA-10.1: the rules for probes find nothing, not a note."""
    assert inspect_files([str(FOLDER / name)], None, "text") == 0
    assert "0 findings" in capsys.readouterr().out


@needs_systemd
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """RA-10.1: systemd-analyze verify finds nothing in the two, which name each other."""
    assert verified([FOLDER / name for name in UNITS], tmp_path) == (0, "")


@pytest.mark.skipif(COMPOSE is None, reason="docker-compose is not here")
def test_compose_takes_its_file() -> None:
    """RA-10.1: its own parser takes it, and refuses it where nobody has said which node is meant."""
    line = [str(COMPOSE), "--file", str(FOLDER / "compose.yaml"), "config", "--quiet"]
    environ = {name: value for name, value in os.environ.items() if name != "NODE_ID"}
    told = subprocess.run(line, env=environ | {"NODE_ID": NODE_ID}, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    told = subprocess.run(line, env=environ, capture_output=True, text=True, check=False)
    assert "set it to what idkmesh node get says" in told.stderr


def test_kubernetes_takes_its_documents() -> None:
    """RA-10.1: each document has the published schema's form, with no member that the schema has not."""
    for document in documents("kubernetes.yaml"):
        kubernetes_validate.validate(document, "1.32", strict=True)


def test_what_the_page_tells_to_type() -> None:
    """Rule: the commands of the adapter's page are commands of this version."""
    page = (ROOT / "docs" / "READINESS_ADAPTER.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in page.splitlines() if line.strip().startswith("idkmesh ")]
    assert len(lines) >= 4
    for line in lines:
        build_parser().parse_args(shlex.split(line)[1:])
