"""Who may ask, and the files that say so."""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import Any

import pytest

from idkmesh.httpd.request import HeadLimits, Refusal
from idkmesh.httpd.request_rules import Request, judge_head
from idkmesh.router.credentials import FORBIDDEN, UNAUTHORIZED, Credentials, digest_of
from idkmesh.router.token_file import TokenFileError, read_password, read_token

ONE, TWO = "1" * 32, "2" * 64
KNOWN = Credentials({"one": digest_of(ONE), "two": digest_of(TWO)})


def request(*fields: str) -> Request:
    head = "\r\n".join(["GET / HTTP/1.1", "Host: h", *fields, "", ""])
    found = judge_head(head.encode("latin-1"), HeadLimits())
    assert isinstance(found, Request)
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((), UNAUTHORIZED),
        (("Authorization:",), UNAUTHORIZED),
        (("Authorization: Bearer",), UNAUTHORIZED),
        (("Authorization: Bearer ",), UNAUTHORIZED),
        ((f"Authorization: Basic {ONE}",), UNAUTHORIZED),
        ((f"Authorization: {ONE}",), UNAUTHORIZED),
        ((f"X-IDKMesh-UI-Token: {ONE}",), UNAUTHORIZED),
        ((f"Authorization: Bearer {ONE}", f"Authorization: Bearer {ONE}"), UNAUTHORIZED),
        (("Authorization: Bearer x",), FORBIDDEN),
        ((f"Authorization: Bearer {ONE}x",), FORBIDDEN),
        ((f"Authorization: Bearer {ONE[:-1]}",), FORBIDDEN),
        ((f"Authorization: Bearer {ONE} {ONE}",), FORBIDDEN),
        (("Authorization: Bearer \xe9\xff",), FORBIDDEN),
        ((f"Authorization: Bearer {ONE}",), "one"),
        ((f"authorization: bearer  {TWO} ",), "two"),
    ],
)
def test_missing_and_unknown_are_told_apart(fields: tuple[str, ...], expected: Any) -> None:
    """RT-9.4, RT-11.3: 401 without a bearer, 403 for another token; the id of a known one."""
    asked = request(*fields)
    assert KNOWN.of(asked) == expected
    assert KNOWN.refuse_token(asked) == (expected if isinstance(expected, Refusal) else None)
    assert KNOWN.refuse_host(asked) is KNOWN.refuse_origin(asked) is None  # type: ignore[func-returns-value]


def test_every_credential_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-9.2: in constant time: all of one length, each of them, wherever the right one stands."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def noted(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    for token in (ONE, TWO, "x", "x" * 4096):
        compared.clear()
        KNOWN.of(request(f"Authorization: Bearer {token}"))
        assert compared == [(32, 32), (32, 32)]


def test_no_token_is_kept() -> None:
    """RT-9.2: only what it cannot be made of again, and not in what is printed."""
    assert ONE not in repr(vars(KNOWN))
    assert repr(KNOWN) == "Credentials(one, two)"
    assert KNOWN.ids == ("one", "two")


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [32, 4096])
def test_a_token_file(tmp_path: Path, end: bytes, size: int) -> None:
    """RT-9.2: 32 to 4,096 characters, and a line end that is dropped."""
    assert read_token(written(tmp_path / "t", b"a" * size + end)) == "a" * size


@pytest.mark.parametrize(
    "content",
    [
        b"a" * 40 + b"\n\n",
        b"a" * 40 + b"\n\r",
        b"a" * 4096 + b"\n\n\n",
        b"",
        b"a" * 31,
        b"a" * 4097,
        b"a" * 40 + b" b",
        b"a" * 40 + b"\xe9",
        b"\n" + b"a" * 40,
    ],
)
def test_a_file_without_a_token(tmp_path: Path, content: bytes) -> None:
    """RT-9.2: refused, without a word of what stands in it."""
    with pytest.raises(TokenFileError) as told:
        read_token(written(tmp_path / "t", content))
    assert "aaa" not in str(told.value)
    assert told.value.mend


def test_a_password_file(tmp_path: Path) -> None:
    """RT-8.1, RT-9.2: one line of UTF-8; what is refused shows nothing of it, not even a byte."""
    for content in ("p", "pässwort mit Raum", "x" * 1024):
        assert read_password(written(tmp_path / "p", f"{content}\n".encode())) == content
    for raw in (b"", b"\n", b"hunt\ner2", b"hunter2\xff", b"hunt\0er2", b"hunter2" * 200, b"h" * 1025):
        with pytest.raises(TokenFileError) as told:
            read_password(written(tmp_path / "p", raw))
        assert not any(word in str(told.value) for word in ("hunt", "er2", "xff", "position"))


@pytest.mark.skipif(os.name != "posix", reason="modes say nothing elsewhere")
def test_a_secret_of_another_group_is_refused(tmp_path: Path) -> None:
    """RT-9.2: 0440 is for a group of this process's own alone."""
    file = written(tmp_path / "t", b"a" * 40, 0o440)
    other = max([os.getegid(), *os.getgroups()]) + 1
    try:
        os.chown(file, -1, other)
    except PermissionError:
        pytest.skip("only root gives a file to another group")
    with pytest.raises(TokenFileError, match="mode 0440"):
        read_token(file)


@pytest.mark.skipif(os.name != "posix", reason="modes say nothing elsewhere")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o660, 0o666, 0o777, 0o601])
def test_a_file_that_others_may_read(tmp_path: Path, mode: int) -> None:
    """RT-9.2: any right of somebody else is refused, and what to do is said."""
    with pytest.raises(TokenFileError, match=f"has mode {mode:04o}.*make it 0600"):
        read_token(written(tmp_path / "t", b"a" * 40, mode))


@pytest.mark.skipif(os.name != "posix", reason="modes say nothing elsewhere")
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700, 0o440])
def test_a_file_of_ones_own(tmp_path: Path, mode: int) -> None:
    """RT-9.2: one's own, and a mounted secret of one's own group."""
    assert read_token(written(tmp_path / "t", b"a" * 40, mode)) == "a" * 40


def test_what_is_no_file(tmp_path: Path) -> None:
    """RT-9.2: a folder, a FIFO (which holds nobody up), nothing, a name that none can have."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    for path in (tmp_path, fifo, tmp_path / "nothing", Path("a\0b")):
        with pytest.raises(TokenFileError):
            read_token(path)
