"""Reading a node: the client file, the question, and the command that is a file by itself."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.adapter import node_get
from idkmesh.adapter.node_get import Client, NoClientFileError, NodeGetError, ask, failure_text, read_client_file
from idkmesh.adapter.observation import Failure, parse_observation
from idkmesh.commands.written_files import client_written
from idkmesh.control_tower.security import checked_token
from tests.adapter.observations import EXAMPLE_FILE, WELL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKEN = "token-of-the-test-suite-0123456789abcdef"
DOCUMENT = {"kind": "idkmesh-client", "schema_version": "0.1", "address": "127.0.0.1:8765", "token": TOKEN}
STRANGER = 65_534
"""The number of a user and a group that are not this process's."""

SCRIPT = [sys.executable, "-I", "-S", node_get.__file__]

posix = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives files away, as root alone may")


def client_file(folder: Path, mode: int = 0o600, **changes: Any) -> str:
    """Write a client file and return its name."""
    path = folder / "client.json"
    path.write_text(json.dumps(DOCUMENT | changes), encoding="utf-8")
    path.chmod(mode)
    return str(path)


def refusal(path: str) -> str:
    """Return why a client file is refused, in one line without the token."""
    with pytest.raises(NodeGetError) as refused:
        read_client_file(path)
    assert refused.value.code == node_get.EXIT_USAGE
    assert TOKEN not in str(refused.value)
    return str(refused.value)


# --- the file --------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700, 0o440])
def test_a_file_for_us_alone(tmp_path: Path, mode: int) -> None:
    """RA-4.1, RA-4.2: address and token of a file that nobody else can read, or that our group was given to read."""
    client = read_client_file(client_file(tmp_path, mode, more={"than": "is known"}))
    assert (client.address, client.token, client.place) == ("127.0.0.1:8765", TOKEN, ("127.0.0.1", 8765))


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o444, 0o450, 0o540, 0o602, 0o610, 0o601])
def test_a_file_that_others_can_use(tmp_path: Path, mode: int) -> None:
    """RA-4.2: any right of the group but that of a mounted secret, and any right of others."""
    assert f"its mode is {mode:04o}" in refusal(client_file(tmp_path, mode))


@root
def test_whose_file_it_is(tmp_path: Path) -> None:
    """RA-4.2: 0440 of a group that is not ours is refused; of ours it is taken, whoever has mounted it."""
    path = client_file(tmp_path, 0o440)
    os.chown(path, 0, STRANGER)
    assert "its mode is 0440" in refusal(path)
    os.chown(path, STRANGER, os.getegid())
    assert read_client_file(path).token == TOKEN


@posix
def test_what_is_behind_a_link(tmp_path: Path) -> None:
    """RA-4.2: the file that is opened is judged, as secrets are mounted behind links."""
    real = Path(client_file(tmp_path))
    link = tmp_path / "link"
    link.symlink_to(real)
    assert read_client_file(str(link)).token == TOKEN
    real.chmod(0o644)
    assert "its mode is 0644" in refusal(str(link))


@posix
def test_what_is_no_file(tmp_path: Path) -> None:
    """RA-4.2: a FIFO is not waited for; a folder, nothing and a name that none can have are one line each."""
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    assert refusal(str(tmp_path / "fifo")).endswith("it is no regular file")
    assert "regular file" in refusal(str(tmp_path / "folder"))
    assert refusal(str(tmp_path / "none")).endswith("No such file or directory")
    assert refusal("a\0b").endswith("it is no name of a file")


def test_a_file_without_a_name(tmp_path: Path) -> None:
    """RA-4.2: it is no file that is not there yet: nobody will write it."""
    with pytest.raises(NodeGetError, match="has no name") as refused:
        read_client_file("")
    assert not isinstance(refused.value, NoClientFileError)
    with pytest.raises(NoClientFileError):
        read_client_file(str(tmp_path / "later"))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"nonsense", b'"text"', b"\xff", b"[" * 4000, b'{"kind":"idkmesh-client"}', b"{} {}"),
        json.dumps(DOCUMENT | {"kind": "idkmesh-probe-run"}).encode(),
        json.dumps(DOCUMENT | {"schema_version": "0.2"}).encode(),
        json.dumps(DOCUMENT | {"token": 5}).encode(),
        json.dumps(DOCUMENT | {"address": None}).encode(),
        json.dumps(DOCUMENT).encode() + b" " * 8192,
    ],
    ids=range(13),
)
def test_what_is_in_it(tmp_path: Path, content: bytes) -> None:
    """RA-4.1: what is no such document of at most 8 KiB is refused."""
    path = tmp_path / "client.json"
    path.write_bytes(content)
    path.chmod(0o600)
    assert f"the client file {path} is refused: it " in refusal(str(path))


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "127.0.0.1:08765",
            "127.0.0.1:+8",
            "127.0.0.1:8 ",
        ),
        *("localhost:8765", "10.0.0.1:8765", "0.0.0.0:8765", "127.0.0:8765", "127.0.0.256:80", "127.0.0.01:80"),
        *(
            "127.0.0.1.1:80",
            "::1:80",
            "[::1%lo]:80",
            "[::2]:80",
            "",
            ":80",
            "127.0.0.1:\uff18\uff10",
            "127.0.0.1\r\nX:80",
        ),
    ],
)
def test_an_address_that_is_refused(address: str) -> None:
    """RA-4.1: a loopback address as it is written, and a port; no name is looked up."""
    with pytest.raises(ValueError, match="its address"):
        Client(address, TOKEN)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.8.7:65535", "[::1]:8765"])
def test_an_address(address: str) -> None:
    """RA-4.1: of both families."""
    client = Client(address, TOKEN)
    assert client.family == (socket.AF_INET6 if "[" in address else socket.AF_INET)
    assert client.address == address


@pytest.mark.parametrize(
    "token", ["a" * 32, "a" * 4096, "a" * 31, "a" * 4097, "a" * 31 + " ", "a" * 31 + "ä", "~.-_" * 8, "a\n" * 20]
)
def test_a_token(token: str) -> None:
    """RA-4.1: what the control tower takes for a token, and nothing else."""

    def taken(check: Callable[[], object]) -> bool:
        try:
            check()
        except ValueError:
            return False
        return True

    assert taken(lambda: Client("127.0.0.1:1", token)) is taken(lambda: checked_token(token, "x"))


@posix
def test_what_the_control_tower_writes(tmp_path: Path) -> None:
    """RA-4.3: a file of mode 0600, which is read, and is gone afterwards; a link under its name stays unwritten."""
    other = tmp_path / "other"
    other.write_text("kept")
    path = tmp_path / "client.json"
    path.symlink_to(other)
    with client_written(str(path), "[::1]:8765", TOKEN):
        assert path.lstat().st_mode & 0o7777 == 0o600
        assert not path.is_symlink()
        assert read_client_file(str(path)).address == "[::1]:8765"
    assert sorted(tmp_path.iterdir()) == [other]
    assert other.read_text() == "kept"


# --- the question ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(*parts: bytes, pause: float = 0.0, hold: bool = False) -> Iterator[Client]:
    """Answer one connection with these parts, and with what the request was; ``hold`` keeps it open afterwards."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                sock, _ = listener.accept()
                with sock:
                    sock.recv(65_536)
                    for part in parts:
                        sock.sendall(part)
                        ended.wait(pause)
                    if hold:
                        ended.wait(20)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Client(f"127.0.0.1:{listener.getsockname()[1]}", TOKEN)
        finally:
            ended.set()
            thread.join(30)


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.0 {status}\r\ncontent-length: {size}\r\n\r\n".encode() + body


DATA = EXAMPLE_FILE.read_bytes()


def failing(client: Client, timeout: float = 20.0) -> tuple[int, str]:
    """Ask where no observation comes, and return the exit code and the line."""
    with pytest.raises(NodeGetError) as failed:
        ask(client, timeout)
    assert TOKEN not in str(failed.value)
    return failed.value.code, str(failed.value).replace(client.address, "HERE")


@pytest.mark.parametrize(
    "parts", [(http(DATA),), tuple(http(DATA)[at : at + 7] for at in range(0, len(http(DATA)), 7))]
)
def test_the_document_as_it_is_given(parts: tuple[bytes, ...]) -> None:
    """RA-6.1: byte by byte, in however many pieces it comes."""
    with answering(*parts) as client:
        assert ask(client, 20.0) == DATA


def test_nobody_listens() -> None:
    """RA-6.2: that is a no."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client(f"127.0.0.1:{listener.getsockname()[1]}", TOKEN)
    assert failing(client) == (1, "nobody listens on HERE")


def test_no_socket_to_be_had() -> None:
    """RA-6.2: a system without IPv6, or a sandbox, says nothing of the node: one line, and the code for it."""
    client = Client("[::1]:1", TOKEN)
    client.family = 12_345
    assert failing(client) == (3, "could not tell: HERE: Address family not supported by protocol")


@pytest.mark.parametrize("parts", [(), (http(DATA)[:-1],), (b"HTTP/1.0 200 OK\r\n",)])
def test_who_does_not_answer_in_time(parts: tuple[bytes, ...]) -> None:
    """RA-6.1, RA-6.2: the time is that of the whole question, whatever has come until then."""
    with answering(*parts, hold=True) as client:
        assert failing(client, 0.2) == (1, "no answer from HERE within 0.2 s")


def test_who_answers_byte_by_byte() -> None:
    """RA-6.1: no byte gives more time."""
    with answering(*(http(DATA)[at : at + 1] for at in range(200)), pause=0.05) as client:
        began = time.monotonic()
        assert failing(client, 0.3)[0] == 1
        assert time.monotonic() - began < 5  # the bytes alone would take ten


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"", "HERE answers status 0, which is no observation of a node"),
        (b"nonsense\r\n\r\n", "HERE answers status 0, which is no observation of a node"),
        (http(b"{}"), "HERE answers status 200, which is no observation of a node"),
        (
            http(DATA.replace(b'"0.1"', b'"0.2"')),
            "HERE answers an observation, and not one of version 0.1",
        ),
        (http(b"[]"), "HERE answers status 200, which is no observation of a node"),
        (http(DATA)[:-1], "HERE answers status 200, which is no observation of a node"),
        (http(DATA, length=5), "HERE answers status 200, which is no observation of a node"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + DATA, "HERE answers status 200, which is no observation of a node"),
        (http(DATA, "404 Not Found"), "HERE answers status 404, which is no observation of a node"),
        (http(DATA, "302 Found"), "HERE answers status 302, which is no observation of a node"),
        (http(DATA + b" " * 262_144), "HERE answers status 200, which is no observation of a node"),
        (http(b"{}", "401 Unauthorized"), "HERE refuses the token; take the client file of its present start"),
    ],
    ids=range(12),
)
def test_what_is_no_observation(answer: bytes, line: str) -> None:
    """RA-6.2, RA-6.3: another answer, one that is cut short, and one that is too long say nothing of the node."""
    with answering(answer) as client:
        assert failing(client) == (3, f"could not tell: {line}")


def test_the_document_of_a_failure() -> None:
    """RA-6.2, RA-2.3: whatever stands in the line, it is a document that is read."""
    told = parse_observation(failure_text('no "answer"\n\\ from ä' + "x" * 500).encode())
    assert isinstance(told, Failure)
    assert told.reason.startswith('the node\'s command says that it failed: no "answer"?\\ from ?xxx')
    assert failure_document_of("x" * 100 + "y" * 100)["reason"] == "x" * 100 + "y" * 100
    cut = failure_document_of("the file " + "x" * 500 + " is not there")["reason"]
    assert len(cut) <= 200
    assert (cut[:10], cut[-14:]) == ("the file x", "x is not there")


def failure_document_of(reason: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(failure_text(reason))
    return document


# --- the file by itself ----------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*SCRIPT, *arguments], check=False, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_file_by_itself(tmp_path: Path) -> None:
    """RA-6.4: it prints the document, without this project's package to import from."""
    with answering(http(DATA)) as client:
        code, text, errors = run("--client-file", client_file(tmp_path, address=client.address))
    assert (code, errors) == (0, "")
    assert parse_observation(text.encode()) == WELL


def test_what_it_says_when_it_fails(tmp_path: Path) -> None:
    """RA-6.2, RA-6.4: a document and a line, which say which it was, and a line alone for wrong usage."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    code, text, errors = run("--client-file", client_file(tmp_path, address=address), "--json")
    assert (code, errors) == (1, f"idkmesh: nobody listens on {address}\n")
    assert isinstance(parse_observation(text.encode()), Failure)
    code, text, errors = run("--client-file", str(tmp_path / "no\nne"))
    assert (code, errors.count("\n")) == (2, 1)
    assert json.loads(text)["reason"].endswith("?ne: No such file or directory")
    code, text, errors = run("--client-file", client_file(tmp_path, 0o644, address=address))
    assert code == 2
    assert "is refused: its mode is 0644" in json.loads(text)["reason"]
    for arguments in ((), ("--client-file",), ("--nothing", "x"), ("--client-file", "a", "b")):
        assert run(*arguments) == (2, "", "usage: node_get.py --client-file FILE\n")


def test_it_imports_next_to_nothing(tmp_path: Path) -> None:
    """RA-6.4: a whole look imports nothing but these four and what they bring, whatever it answers."""

    def imported(*arguments: str) -> set[str]:
        command = [sys.executable, "-I", "-S", "-X", "importtime", *arguments]
        lines = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stderr.splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    base = imported("-c", "import os, time, _json, _socket")
    with answering(http(DATA)) as client:
        assert imported(node_get.__file__, "--client-file", client_file(tmp_path, address=client.address)) <= base
