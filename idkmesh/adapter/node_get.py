"""Ask a control tower for its observation, once (RA-4, RA-6): for ``idkmesh node get``, and a program by itself.

``python -I -S node_get.py --client-file FILE`` prints the document. It is started each second, so it imports what the
interpreter has built in: ``json`` and ``socket`` would each cost as much again as the start of the interpreter. Their
halves in C, ``_json`` and ``_socket``, are CPython's own.
"""

import _json
import _socket
import os
import sys
import time

TYPE_CHECKING = False
"""As type checkers know it, without the module that has it."""

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

KIND = "idkmesh-node-observation"
CLIENT_KIND = "idkmesh-client"
SCHEMA_VERSION = "0.1"
PATH = "/api/v1/node"

TIMEOUT_SECONDS = 1.0
"""For the whole question."""
MAX_BODY_BYTES = 256 * 1024
MAX_HEAD_BYTES = 16 * 1024
MAX_FILE_BYTES = 8 * 1024
MAX_REASON = 200
"""Characters (RA-2.3)."""
CUT = " ... "

EXIT_NO = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3

_TOKEN_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TOKEN_LENGTHS = range(32, 4097)
_PORTS = range(1, 65_536)
_KIND_OF_FILE = 0o170000
_REGULAR_FILE = 0o100000
"""S_IFMT and S_IFREG: the module that names them is one more to import."""


class NodeGetError(Exception):
    """No observation was had: one line for people, and the exit code (RA-6.2)."""

    def __init__(self, line: str, code: int) -> None:
        super().__init__(line)
        self.code = code


class NoClientFileError(NodeGetError):
    """There is no client file, which may be so for a while: a node writes it once it listens (RA-4.3)."""


class Client:
    """What a client file says. ``place`` is the address as the socket takes it."""

    __slots__ = ("address", "family", "place", "token")

    def __init__(self, address: str, token: str) -> None:
        """Take both. Raises ``ValueError``, in words for people, for what has not its form (RA-4.1)."""
        host, _, port = address.rpartition(":")
        parts = host.split(".")
        if not _is_number(port, _PORTS):
            raise ValueError("its address has no port from 1 to 65535")
        if host == "[::1]":
            self.family, self.place = _socket.AF_INET6, ("::1", int(port))
        elif len(parts) == 4 and parts[0] == "127" and all(_is_number(part, range(256)) for part in parts):  # noqa: PLR2004  an IPv4 address
            self.family, self.place = _socket.AF_INET, (host, int(port))
        else:
            raise ValueError("its address is not 127.0.0.0/8 or [::1], a colon and a port")
        if len(token) not in _TOKEN_LENGTHS or not _TOKEN_CHARACTERS.issuperset(token):
            raise ValueError("its token is not 32 to 4096 characters of A-Z a-z 0-9 - . _ ~")
        self.address = address
        self.token = token


def read_client_file(path: str) -> Client:
    """Return what a client file says (RA-4.1, RA-4.2). Raises :class:`NodeGetError` with the code for a bad file."""
    if not path:  # to the system that is a file which is not there, and nobody will ever write it
        raise NodeGetError("the client file has no name; give it one with --client-file", EXIT_USAGE)
    try:
        # A FIFO under the name would keep an open() without O_NONBLOCK for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            refusal = _distrust(os.fstat(descriptor))
            if refusal:
                raise NodeGetError(f"the client file {path} is refused: {refusal}", EXIT_USAGE)
            data = _read_file(descriptor)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or "it is no name of a file"
        kind = NoClientFileError if isinstance(error, FileNotFoundError) else NodeGetError
        raise kind(f"cannot read the client file {path}: {reason}", EXIT_USAGE) from None
    try:
        return _client_of(data)
    except ValueError as error:
        raise NodeGetError(f"the client file {path} is refused: {error}", EXIT_USAGE) from None


def _distrust(found: os.stat_result) -> str:
    """Return why a file is not to be trusted with a token, nothing where it is (RA-4.2)."""
    mode = found.st_mode
    if mode & _KIND_OF_FILE != _REGULAR_FILE:
        return "it is no regular file"
    if os.name != "posix":
        return ""  # there the mode says nothing
    ours = found.st_gid == os.getegid() or found.st_gid in os.getgroups()
    if mode & 0o077 and not (mode & 0o777 == 0o440 and ours):  # noqa: PLR2004  the mode of a mounted secret
        return f"its mode is {mode & 0o777:04o}, so that others can read or write it; make it 0600"
    return ""


def _read_file(descriptor: int) -> bytes:
    data = b""
    while len(data) <= MAX_FILE_BYTES:
        part = os.read(descriptor, MAX_FILE_BYTES + 1 - len(data))
        if not part:
            break
        data += part
    return data


def _client_of(data: bytes) -> Client:
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
    document = _parsed(data)
    if document is None or document.get("kind") != CLIENT_KIND or document.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"it is no {CLIENT_KIND} of version {SCHEMA_VERSION} in JSON")
    address, token = document.get("address"), document.get("token")
    if not isinstance(address, str) or not isinstance(token, str):
        raise ValueError("it has no address and token")  # noqa: TRY004  the document's fault, no type of this program
    return Client(address, token)


def ask(client: Client, timeout: float = TIMEOUT_SECONDS) -> bytes:
    """Return the document that a node gives, as it gives it, within ``timeout`` seconds in all.

    Raises :class:`NodeGetError` (RA-6.2, RA-6.3).
    """
    deadline = time.monotonic() + timeout
    try:
        sock = _socket.socket(client.family, _socket.SOCK_STREAM)
        try:
            status, body = _exchange(sock, client, deadline)
        finally:
            sock.close()
    except TimeoutError:
        raise NodeGetError(f"no answer from {client.address} within {timeout:g} s", EXIT_NO) from None
    except ConnectionRefusedError:
        raise NodeGetError(f"nobody listens on {client.address}", EXIT_NO) from None
    except ConnectionError as error:
        raise NodeGetError(f"no answer from {client.address}: {error.strerror}", EXIT_NO) from None
    except OSError as error:
        raise NodeGetError(f"could not tell: {client.address}: {error.strerror}", EXIT_UNKNOWN) from None
    if status == 401:  # noqa: PLR2004  RFC 9110 §15.5.2
        line = f"could not tell: {client.address} refuses the token; take the client file of its present start"
        raise NodeGetError(line, EXIT_UNKNOWN)
    document = _parsed(body) if status == 200 and body is not None else None  # noqa: PLR2004  RFC 9110 §15.3.1
    if body is None or document is None or document.get("kind") != KIND:
        what = f"status {status}, which is no observation of a node"
        raise NodeGetError(f"could not tell: {client.address} answers {what}", EXIT_UNKNOWN)
    if document.get("schema_version") != SCHEMA_VERSION:
        line = f"could not tell: {client.address} answers an observation, and not one of version {SCHEMA_VERSION}"
        raise NodeGetError(line, EXIT_UNKNOWN)
    return body


def _exchange(sock: _socket.socket, client: Client, deadline: float) -> "tuple[int, bytes | None]":
    """Return the status of the answer, 0 for none, and its whole body, None where that was not had."""
    request = f"GET {PATH} HTTP/1.1\r\nHost: {client.address}\r\nAuthorization: Bearer {client.token}\r\n"
    _wait(sock, deadline)
    sock.connect(client.place)
    _wait(sock, deadline)
    sock.sendall(f"{request}Connection: close\r\n\r\n".encode("ascii"))
    data = b""
    while len(data) <= MAX_HEAD_BYTES + MAX_BODY_BYTES:
        _wait(sock, deadline)
        part = sock.recv(65_536)
        if not part:
            break
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    status = int(rest[:3]) if version[:7] == b"HTTP/1." and rest[:3].isdigit() else 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip() == b"%d" % len(body) and len(body) <= MAX_BODY_BYTES:
            return status, body
    return status, None


def _wait(sock: _socket.socket, deadline: float) -> None:
    """Let the next call of the socket last until the deadline. ``sendall`` counts the whole of itself."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


class _Scanning:
    """What the scanner of ``_json`` asks of its context: JSON as the standard library reads it."""

    strict = True
    object_hook = None
    object_pairs_hook = dict
    parse_float = float
    parse_int = int
    parse_constant = str


def _parsed(data: bytes) -> "dict[str, Any] | None":
    """Return the object that some bytes are in JSON, None for anything else."""
    try:
        text = data.decode("utf-8").strip(" \t\r\n")
        value, end = _json.make_scanner(_Scanning)(text, 0)  # type: ignore[arg-type]  # whatever has these attributes
    except (ValueError, StopIteration, RecursionError):
        return None
    return value if isinstance(value, dict) and end == len(text) else None


def _is_number(text: str, allowed: range) -> bool:
    """Say whether a text is one of these numbers, as a person writes it: ``010`` is eight to some."""
    return text.isascii() and text.isdigit() and len(text) < 6 and int(text) in allowed and str(int(text)) == text  # noqa: PLR2004  digits of a port


def failure_text(reason: str) -> str:
    """Return the document of a look that told nothing (RA-2.3). A long reason loses its middle, where a path is."""
    shown = "".join(char if " " <= char <= "~" else "?" for char in reason)
    if len(shown) > MAX_REASON:
        kept = (MAX_REASON - len(CUT)) // 2
        shown = shown[:kept] + CUT + shown[-kept:]
    return (
        f'{{"kind":"{KIND}","schema_version":"{SCHEMA_VERSION}","result":"failed",'
        f'"reason":{_json.encode_basestring_ascii(shown)}}}'
    )


def main(argv: "Sequence[str]") -> int:
    """Print the observation, or the document of a failure, and return the exit code."""
    arguments = [argument for argument in argv if argument != "--json"]
    if len(arguments) != 2 or arguments[0] != "--client-file":  # noqa: PLR2004  the flag and its value
        _write(2, "usage: node_get.py --client-file FILE")
        return EXIT_USAGE
    try:
        _write(1, ask(read_client_file(arguments[1])).decode("utf-8"))
    except NodeGetError as error:
        _write(1, failure_text(str(error)))
        _write(2, "idkmesh: " + str(error).encode("unicode_escape").decode("ascii"))
        return error.code
    return 0


def _write(descriptor: int, line: str) -> None:
    data = (line + "\n").encode("utf-8", "backslashreplace")
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError:  # nobody reads
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
