"""The files under deploy/: what their own tools say of them where these are there, and what they promise anyway."""

from __future__ import annotations

import configparser
import fnmatch
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from idkmesh.adapter.verdict import FOR_LIVE, FOR_READY, FRESH, RESULT
from idkmesh.cli import build_parser
from idkmesh.cli.parser import flags_of
from idkmesh.commands.inspect import inspect_files
from idkmesh.settings_in_force import in_force
from tests.systemd import needs_systemd, verified

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "readiness-adapter"
CLIENT_FILE: Final = "/run/idkmesh/client.json"
UNITS: Final = ("idkmesh-node.service", "idkmesh-readiness-adapter.service")
NODE_ID: Final = "5b0c1f0e6f2a4c53b0f1d7f8a9c3e210"
COMPOSE: Final = shutil.which("docker-compose")
PAGE: Final = (ROOT / "docs" / "READINESS_ADAPTER.md").read_text(encoding="utf-8")
HEADS: Final = ("compose.yaml", "kubernetes.yaml", *UNITS)


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


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents("kubernetes.yaml") if each["kind"] == kind)
    return found


def pod() -> dict[str, Any]:
    found: dict[str, Any] = of_kind("StatefulSet")["spec"]["template"]["spec"]
    return found


def containers() -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in pod()["containers"]}


def head(name: str) -> list[str]:
    """Return the commands in the head of a file, which its comment indents."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), (FOLDER / name).read_text("utf-8").splitlines())
    return [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]


def page_blocks(language: str) -> list[list[str]]:
    """Return the lines of each block of a language on the adapter's page."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return [[line.strip() for line in block.splitlines()] for block in found]


def commands() -> dict[str, list[str]]:
    """Return the arguments that each file starts ``idkmesh`` with, by file and part."""
    node, adapter = containers()["node"], containers()["adapter"]
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
        given = in_force("readiness-adapter", flags_of("readiness-adapter", arguments), {})
        assert (given["node_id"], given["listen"]) == (NODE_ID, ("127.0.0.1", 18_181))
    if hasattr(arguments, "client_file"):
        assert arguments.client_file == CLIENT_FILE
    if hasattr(arguments, "host"):
        assert in_force("control-tower", flags_of("control-tower", arguments), {})["host"] == "127.0.0.1"
    if getattr(arguments, "url", None) is not None:
        assert re.fullmatch(r"http://127\.0\.0\.1:18181/(startup|live|ready)", arguments.url)


def test_the_sidecar_of_kubernetes() -> None:
    """RA-10.1: a sidecar with limits, the client file read-only, no port, and each probe a command."""
    node, adapter = containers()["node"], containers()["adapter"]
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
    assert of_kind("StatefulSet")["spec"]["serviceName"] == of_kind("Service")["metadata"]["name"]
    assert of_kind("Service")["spec"]["clusterIP"] == "None"
    assert of_kind("Service")["spec"]["selector"] == of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]


def test_what_restarts_the_node() -> None:
    """RA-10.3: what restarts the node asks the node, readiness the adapter, and it waits for none."""
    node = containers()["node"]
    asks_the_node = ["idkmesh", "healthcheck", "--live", "--timeout", "2", "--port", "8765"]
    assert node["startupProbe"]["exec"]["command"] == asks_the_node
    assert node["livenessProbe"]["exec"]["command"] == asks_the_node
    assert node["readinessProbe"]["exec"]["command"][-1] == "http://127.0.0.1:18181/ready"
    assert services()["node"]["healthcheck"]["test"][1:] == asks_the_node
    assert "initContainers" not in pod()
    assert not {"depends_on", "network_mode"} & services()["node"].keys()
    assert not {"Wants", "Requires", "BindsTo", "PartOf"} & set(unit(UNITS[0])["Unit"])
    assert not {"startupProbe", "readinessProbe"} & containers()["adapter"].keys()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 0), (None, 1)], ids=["yes", "no", "hangs"])
def test_the_adapters_own_probe(status: int | None, code: int) -> None:
    """RA-10.3: the adapter's liveness is that it answers, yes or no; one that only accepts is not alive."""
    program, *arguments = containers()["adapter"]["livenessProbe"]["exec"]["command"]
    assert program == "python3"
    assert arguments[-1].count("18181") == 1
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments[-1] = arguments[-1].replace("18181", str(listener.getsockname()[1]))
        with subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL) as probe:
            connection, _ = listener.accept()
            with connection:
                head = connection.recv(4096)
                if status is not None:
                    connection.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
                assert probe.wait(30) == code
    assert head.startswith(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize("given", [of_kind("ConfigMap")["data"]["node_id"], ""], ids=["kubernetes", "compose"])
def test_what_stands_before_an_id_is_given(given: str) -> None:
    """RA-10.4, RA-2.4: what the files say until somebody gives an id is none: exit code 2, and why."""
    command = [
        sys.executable,
        "-m",
        "idkmesh",
        "readiness-adapter",
        f"--node-id={given}",
        f"--client-file={CLIENT_FILE}",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"--node-id: {given!r} is refused, it must be" in done.stderr


STEPS: Final = {
    "compose.yaml": ("--wait node", "exec node", "/.env", "--wait"),
    "kubernetes.yaml": ("kubectl apply", "kubectl exec", "kubectl patch", "kubectl delete pod"),
    "idkmesh-node.service": (
        "enable --now idkmesh-node",
        "runuser -u idkmesh",
        "/adapter.env",
        "idkmesh-readiness-adapter",
    ),
}
"""What starts the node, asks for its id, says it, and starts the adapter: the last four lines of a file's head."""


@pytest.mark.parametrize("name", STEPS)
def test_the_steps(name: str) -> None:
    """RA-10.4: the head of each file has the steps in their order, and the page has all that the head has."""
    steps = head(name)[-4:]
    assert [word for word, line in zip(STEPS[name], steps, strict=True) if word not in line] == []
    assert "NODE_ID" in steps[2]
    asks = shlex.split(steps[1][steps[1].index("idkmesh node get") :])[1:]
    assert build_parser().parse_args(asks).client_file == CLIENT_FILE
    assert any(block[-len(head(name)) :] == head(name) for block in page_blocks("sh"))


def test_the_steps_name_what_there_is() -> None:
    """RA-10.4: the pod, container, ConfigMap and files of the steps are those of the files."""
    steps = head("kubernetes.yaml")
    assert steps[1].split()[2:5] == [f"{of_kind('StatefulSet')['metadata']['name']}-0", "-c", "node"]
    assert steps[2].split()[3] == of_kind("ConfigMap")["metadata"]["name"]
    (patch,) = re.findall(r"--patch '(.*)'", steps[2])
    assert json.loads(patch)["data"].keys() == of_kind("ConfigMap")["data"].keys()
    every = [line for block in page_blocks("sh") for line in block] + [line for name in HEADS for line in head(name)]
    named = {path for line in every for path in re.findall(r"deploy/readiness-adapter/[\w.-]+\.(?:yaml|service)", line)}
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []
    told = PAGE + "".join((FOLDER / name).read_text(encoding="utf-8") for name in HEADS)
    assert set(re.findall(r"docker compose \S+ \S+", told)) == {
        "docker compose -f deploy/readiness-adapter/compose.yaml"
    }


def test_the_units_before_an_id_is_given() -> None:
    """RA-10.4: without the file that says the id the adapter is passed over, and not tried until systemd gives up."""
    adapter = unit(UNITS[1])
    assert adapter["Unit"]["ConditionPathExists"] == adapter["Service"]["EnvironmentFile"] == "/etc/idkmesh/adapter.env"
    for line in (line for line in head(UNITS[1]) if line):
        assert line in head(UNITS[0])
    examples = (ROOT / "examples" / "idkmesh-supervise.service").read_text(encoding="utf-8")
    paths = [shlex.split(unit(name)["Service"]["ExecStart"])[0] for name in UNITS]
    assert paths == ["/usr/local/bin/idkmesh"] * 2
    assert f"ExecStart={paths[0]} " in examples


def passes(name: str) -> bool:
    """Return whether ``.dockerignore`` lets a path through: the last pattern for it or a folder above it decides."""
    through = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#"):
            parts = name.split("/")
            above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
            if any(fnmatch.fnmatchcase(f"/{each}", f"/{pattern}".replace("/**/", "*/")) for each in above):
                through = line != pattern
    return through


@pytest.mark.parametrize("file", ["deploy/readiness-adapter/Containerfile", "examples/Dockerfile"])
def test_what_the_images_need_is_let_through(file: str) -> None:
    """RA-10.5: all that an image copies is let through by `.dockerignore`, and stands there by name."""
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    names = " ".join(lines).split()
    assert {"pyproject.toml", "README.md", "LICENSE", "idkmesh"} <= set(names)
    assert "." not in names
    kept = [path for name in names for path in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])]
    kept = [path for path in kept if path.is_file() and "__pycache__" not in path.parts]
    assert [path for path in kept if not passes(path.relative_to(ROOT).as_posix())] == []


@pytest.mark.parametrize(
    "name",
    [".git/config", ".venv/bin/python", "node.json", "deploy/readiness-adapter/.env", "idkmesh/__pycache__/cli.pyc"],
)
def test_what_no_image_needs_is_kept_out(name: str) -> None:
    """RA-10.5: the history, an environment and what has a token are not even sent to a builder."""
    assert not passes(name)


def test_the_package_is_built_of_what_is_copied(tmp_path: Path) -> None:
    """RA-10.5: what the Containerfile copies is enough to build the package of."""
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (FOLDER / "Containerfile").read_text("utf-8"), re.MULTILINE)
    for name in " ".join(copied).split():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path)
    code = "import hatchling.build as build; print(build.build_wheel('.'))"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "idkmesh/adapter/node_get.py" in zipfile.ZipFile(wheel).namelist()


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="no checkout")
@pytest.mark.parametrize("name", ["node.json", "n1.client.json", "deploy/readiness-adapter/.env"])
def test_git_leaves_client_files_out(name: str) -> None:
    """Rule: what the page and the README have a reader write with a token in it is not added to the history."""
    assert subprocess.run(["git", "-C", str(ROOT), "check-ignore", "--quiet", name], check=False).returncode == 0


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
    """RA-10.1, RA-10.4: its own parser takes it, also while nobody has said which node is meant."""
    line = [str(COMPOSE), "--file", str(FOLDER / "compose.yaml"), "config", "--quiet"]
    environ = {name: value for name, value in os.environ.items() if name != "NODE_ID"}
    for given in ({"NODE_ID": NODE_ID}, {}):
        told = subprocess.run(line, env=environ | given, capture_output=True, text=True, check=False)
        assert (told.returncode, told.stderr) == (0, "")


def test_kubernetes_takes_its_documents() -> None:
    """RA-10.1: each document has the published schema's form, with no member that the schema has not."""
    for document in documents("kubernetes.yaml"):
        kubernetes_validate.validate(document, "1.32", strict=True)


def test_what_the_page_tells_to_type() -> None:
    """Rule: the commands of the adapter's page are commands of this version."""
    lines = [line.strip() for line in PAGE.splitlines() if line.strip().startswith("idkmesh ")]
    assert len(lines) >= 4
    for line in lines:
        build_parser().parse_args(shlex.split(line)[1:])


def test_every_condition_has_its_remedy() -> None:
    """RA-7.5: the page has what to do for each condition that a line of the log may name, and for no other."""
    rows = re.findall(
        r"^\| (`.+?`) \| [^|]+ \| [^|]+ \|$", PAGE.partition("## What stands against it")[2], re.MULTILINE
    )
    named = [name for row in itertools.takewhile(lambda row: "." not in row, rows) for name in re.findall(r"\w+", row)]
    assert named == [RESULT, FRESH, *(condition.name for condition in (*FOR_LIVE, *FOR_READY))]
