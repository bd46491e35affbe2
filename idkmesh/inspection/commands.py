"""What a probe's command does, as far as its words tell: pure functions of an argument list or a line for a shell."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.public import joined, shown_argument, shown_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})

_WRAPPERS: Final = frozenset(
    {"exec", "env", "sudo", "nice", "time", "timeout", "gosu", "su-exec", "command", "busybox", "tini", "if", "then"}
    | {"else", "elif", "while", "until", "do", "!", "{", "(", "nohup", "setpriv"}
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_DURATION: Final = re.compile(r"[0-9.]+[smhd]?")
_SEPARATORS: Final = frozenset({"|", "||", "&&", ";", "&", "|&", "(", ")", ";;"})
_PLAIN_SCRIPT: Final = re.compile(r"[\w\s./:=@%+,~'\"-]*")
_SUBSTITUTION: Final = re.compile(r"\$\(([^()`]*)\)|`([^`]*)`")
"""A command within a quoted word. One that stands without quotes falls apart at its brackets already."""

_EXIT_ONE: Final = re.compile(r"\s*(?:\|\||;)\s*exit\s+(?:1|\$\?)\s*;?\s*$")
_TOKEN: Final = re.compile(r"[a-z0-9]+")

MAX_SCRIPT_CHARACTERS: Final = 20_000
"""A script in a manifest is a screenful; what comes after this is not looked at."""


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command of a script: its program's base name, its words after the program, its variables before."""

    program: str
    words: tuple[str, ...]
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A probe's command. ``script`` is the text that a shell gets, None where no shell is given one."""

    argv: tuple[str, ...]
    script: str | None
    simple: tuple[Simple, ...]
    piped: bool = False

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the base names of the programs, in order."""
        return tuple(each.program for each in self.simple)

    @property
    def needs_no_shell(self) -> bool:
        """Whether a shell is given a script that is one plain command, apart from ``|| exit 1``."""
        if self.script is None:
            return False
        stripped = _EXIT_ONE.sub("", self.script.strip())
        return bool(stripped) and "\n" not in stripped and bool(_PLAIN_SCRIPT.fullmatch(stripped))

    @property
    def assigned(self) -> tuple[str, ...]:
        """Return the names of the variables that a script sets before its first program: ``A=1 program``."""
        words = itertools.takewhile(_ASSIGNMENT.match, _tokens((self.script or "")[:MAX_SCRIPT_CHARACTERS]))
        return tuple(word.partition("=")[0][:60] for word in words)

    @property
    def text(self) -> str:
        """Return the command in one short line, without the values in it: any of them may be a credential (HL-7.3)."""
        words = self.argv if self.script is None else _tokens(self.script[:MAX_SCRIPT_CHARACTERS])
        line = joined(_shown(words))
        return line if len(line) <= _MOST_SHOWN else line[: _MOST_SHOWN - 4] + " ..."


_MOST_SHOWN: Final = 80


def from_argv(argv: Sequence[str]) -> Command:
    """Return what an argument list runs, looking into ``sh -c SCRIPT``."""
    words = tuple(argv)
    inner = _unwrapped(words)
    if inner and _base(inner[0]) in SHELLS:
        options = list(itertools.takewhile(lambda word: word.startswith("-"), inner[1:]))
        rest = inner[1 + len(options) :]
        if rest and any("c" in word for word in options if not word.startswith("--")):  # sh -ec, or sh -c -e
            command = from_script(rest[0])
            return Command(words, command.script, command.simple, command.piped)
        if rest:
            return Command(words, None, (Simple(_base(rest[0]), rest[1:]),))
    return Command(words, None, tuple(_simple([*words])))


def from_script(script: str) -> Command:
    """Return what a shell runs that is given a script."""
    tokens = _tokens(script[:MAX_SCRIPT_CHARACTERS])
    simple: list[Simple] = []
    current: list[str] = []
    for token in [*tokens, ";"]:
        if token in _SEPARATORS:
            simple.extend(_simple(current))
            current = []
        else:
            current.append(token)
    for inner in itertools.chain.from_iterable(pair for token in tokens for pair in _SUBSTITUTION.findall(token)):
        simple.extend(_simple(_tokens(inner)))
    return Command((), script, tuple(simple), "|" in tokens or "|&" in tokens)


def name_tokens(text: str) -> frozenset[str]:
    """Return the lower-case letters-and-digits parts of a name, a path or a URL."""
    return frozenset(_TOKEN.findall(text[:MAX_SCRIPT_CHARACTERS].lower()))


def option(words: Sequence[str], *names: str) -> str | None:
    """Return the value of the first of some options: ``-h db``, ``-hdb``, ``--host db`` or ``--host=db``."""
    for index, word in enumerate(words):
        for name in names:
            if word == name:
                return words[index + 1] if index + 1 < len(words) else None
            if name.startswith("--") and word.startswith(name + "="):
                return word[len(name) + 1 :]
            if not name.startswith("--") and word.startswith(name) and len(word) > len(name):
                return word[len(name) :]
    return None


def _tokens(script: str) -> list[str]:
    lexer = shlex.shlex(script.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="();|&")
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # a quote that does not end
        return script.split()


def _simple(words: list[str]) -> Iterator[Simple]:
    variables = tuple(word for word in words if _ASSIGNMENT.match(word))
    rest = _unwrapped(words)
    if rest:
        yield Simple(_base(rest[0]), tuple(rest[1:]), variables)


def _shown(words: Sequence[str]) -> Iterator[str]:
    """Return each word as it may be shown: programs, and the names of what they are given."""
    before_program = True
    for word in words:
        if word in _SEPARATORS:
            before_program = True
            yield word
        elif before_program:
            before_program = _base(word) in _WRAPPERS or bool(_ASSIGNMENT.match(word))
            yield shown_program(word)
        else:
            yield shown_argument(word)


def _unwrapped(words: Sequence[str]) -> tuple[str, ...]:
    """Leave out what stands before the program: assignments, and programs that run another one."""
    index = 0
    wrapped = False
    while index < len(words):
        word = words[index]
        if _base(word) in _WRAPPERS:
            wrapped = True
        elif not _ASSIGNMENT.match(word) and not (wrapped and (word.startswith("-") or _DURATION.fullmatch(word))):
            break
        index += 1
    return tuple(words[index:])


def _base(word: str) -> str:
    return word.rpartition("/")[2].lower().removesuffix(".exe")
