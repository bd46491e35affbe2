"""Rules on the commands that probes run, in Kubernetes, in Compose and in the matrix alike."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.clients import asked_host, is_local
from idkmesh.inspection.commands import SHELLS, from_script
from idkmesh.inspection.findings import Met, Rule, Severity, clipped
from idkmesh.inspection.public import shown_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from idkmesh.inspection.commands import Command, Simple
    from idkmesh.inspection.findings import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCommand:
    """A command that a probe runs: where it stands, its timeout in seconds, and where that stands.

    ``by_kubelet`` says that the platform could ask by HTTP itself. ``dollars`` are the words in which a ``$`` comes to
    the program as it is written.
    """

    command: Command
    place: Place
    timeout: float
    timeout_place: Place
    by_kubelet: bool
    dollars: tuple[str, ...] = ()


WRITES: Final = Rule(
    id="PB301",
    severity=Severity.ERROR,
    title="A probe changes something",
    why="A probe runs every few seconds on every instance, is killed at its timeout and runs again. What it writes is "
    "written a thousand times, and half of it at worst.",
    mend="Read only. Migrate before the start, in a job or an init container.",
)
CURL_WITHOUT_FAIL: Final = Rule(
    id="PB302",
    severity=Severity.WARNING,
    title="curl without --fail",
    why="curl exits 0 for an answer of 500 or 503: the probe fails only when nothing listens.",
    mend="Add --fail (-f).",
)
NEEDLESS_SHELL: Final = Rule(
    id="PB303",
    severity=Severity.NOTE,
    title="A shell that is not needed",
    why="It is one more process each time, it has to be in the image, and what it has started can outlive a run that "
    "is killed at its timeout.",
    mend="Give the program and its arguments as a list.",
)
PIPE: Final = Rule(
    id="PB304",
    severity=Severity.WARNING,
    title="A pipe hides the exit status",
    why="The status of a pipe is that of its last program; that of the one that asks is lost.",
    mend="End with a program that decides (grep -q), or set -o pipefail.",
)
CREDENTIAL: Final = Rule(
    id="PB305",
    severity=Severity.WARNING,
    title="A credential in a probe's command",
    why="It stands in the manifest, in the process list of the node each time the probe runs, and in what describes "
    "the container.",
    mend="Read it inside the container from a file or a variable, or ask something that needs none.",
)
OUTPUT: Final = Rule(
    id="PB306",
    severity=Severity.NOTE,
    title="A probe prints much",
    why="The platform reads the output of every run and keeps the beginning of it; what follows is work for nothing.",
    mend="Print nothing (-q, -o /dev/null): the exit status is the answer.",
)
HEAVY: Final = Rule(
    id="PB307",
    severity=Severity.WARNING,
    title="A probe's program is heavier than its timeout",
    why="The program's own start takes most of the timeout, and under load all of it. The probe then fails because the "
    "machine is busy, and liveness restarts the busiest instances first.",
    mend="Ask by HTTP, TCP or gRPC, or raise the timeout well above the program's start.",
)
HTTP_BY_COMMAND: Final = Rule(
    id="PB308",
    severity=Severity.NOTE,
    title="A program asks what the kubelet could ask by HTTP",
    why="It is a process in the container each time, and it has to be in the image.",
    mend="Use httpGet.",
)

NO_SHELL: Final = Rule(
    id="PB309",
    severity=Severity.ERROR,
    title="A shell's words without a shell",
    why="Without a shell nobody reads them: ||, | and > are arguments like any other, and $NAME is five characters. "
    "The probe fails for ever, or asks something else than it seems to.",
    mend="Leave them out, or run a shell: [sh, -c, SCRIPT], in Compose CMD-SHELL.",
)
ONE_WORD: Final = Rule(
    id="PB310",
    severity=Severity.ERROR,
    title="A whole line as the name of a program",
    why="The list has one word, which is looked for as a file with spaces in its name, so the probe always fails.",
    mend="Write each word by itself: [PROGRAM, ARGUMENT].",
)

_WRITING_PROGRAMS: Final = frozenset(
    {"rm", "rmdir", "mv", "dd", "truncate", "mkfs", "flyway", "liquibase", "alembic", "kill", "pkill", "killall"}
    | {"reboot", "shutdown", "migrate", "dropdb", "createdb"}
)
_SQL_WRITE: Final = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|(?:DROP|CREATE|ALTER|TRUNCATE)\s+(?:TABLE|DATABASE|INDEX|SCHEMA))\b",
    re.IGNORECASE,
)
_WRITING_WORDS: Final = frozenset({"migrate", "db:migrate", "flushall", "flushdb", "makemigrations", "database-update"})
_WRITING_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_CACHE_WRITES: Final = frozenset({"set", "del", "lpush", "rpush", "incr", "publish", "setex", "bgsave", "save"})


def _written(simple: Simple) -> str | None:
    """Return the word that shows that a command changes something, or None."""
    words = simple.words
    if simple.program in _WRITING_PROGRAMS and "-0" not in words and "--help" not in words:
        return simple.program
    if simple.program in {"curl", "wget"}:
        method = next(
            (word for word in words if word.upper().removeprefix("-X").removeprefix("--REQUEST=") in _WRITING_METHODS),
            None,
        )
        data = next(
            (
                word
                for word in words
                if word in {"-d", "--data", "--post-data", "-T", "-F"}
                or word.startswith(("--data-", "--data=", "--post-data="))
            ),
            None,
        )
        return method or data
    if simple.program.endswith("-cli"):
        return next((word for word in words if word.lower() in _CACHE_WRITES | _WRITING_WORDS), None)
    for word in words:
        if word.lower() in _WRITING_WORDS and not {"--check", "--plan", "--dry-run"} & set(words):
            return word
        match = _SQL_WRITE.search(word[:2000])
        if match:
            return match[0]
    return None


def _writes(probe: ProbeCommand) -> Iterator[Met]:
    for simple in probe.command.simple:
        told = _written(simple)
        if told is not None:
            yield Met(
                probe.place,
                f"{shown_program(simple.program)} with {told.partition('=')[0][:60]}."
                if told != simple.program
                else f"It runs {told}.",
            )
            return


def _curl_without_fail(probe: ProbeCommand) -> Iterator[Met]:
    words = probe.command.script if probe.command.script is not None else " ".join(probe.command.argv)
    if probe.command.piped or "http_code" in words or "response_code" in words:
        return  # something else looks at the answer
    for simple in probe.command.simple:
        if simple.program == "curl" and not any(_fails(word) for word in simple.words):
            yield Met(probe.place, f"{probe.command.text}.")


def _fails(word: str) -> bool:
    return word.startswith("--fail") or (word.startswith("-") and not word.startswith("--") and "f" in word)


def _needless_shell(probe: ProbeCommand) -> Iterator[Met]:
    if probe.command.needs_no_shell:
        names = probe.command.assigned
        mend = None
        if names:  # a list has no place for an assignment
            told = ", ".join(names[:3])
            mend = f"Set {told} in the container's environment, and give the program and its arguments as a list."
        yield Met(probe.place, f"{probe.command.text} is one plain command.", mend)


_DECIDING: Final = frozenset({"grep", "egrep", "fgrep", "awk", "jq", "test", "[", "[[", "python", "python3", "xargs"})


def _pipe(probe: ProbeCommand) -> Iterator[Met]:
    command = probe.command
    if not command.piped or "pipefail" in (command.script or ""):
        return
    if not any(program in _DECIDING for program in command.programs):
        yield Met(probe.place, f"{command.text}.")


_PASSWORD_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlcmd": ("-P",),
    "mysqladmin": ("--password", "-p"),
    "mysql": ("--password", "-p"),
    "mariadb": ("--password", "-p"),
    "mariadb-admin": ("--password", "-p"),
    "redis-cli": ("-a", "--pass"),
    "valkey-cli": ("-a", "--pass"),
    "mongo": ("-p", "--password"),
    "mongosh": ("-p", "--password"),
    "cqlsh": ("-p", "--password"),
    "curl": ("-u", "--user"),
}
_SECRET_VARIABLE: Final = re.compile(r"\w*(?:PASSWORD|PASSWD|SECRET|TOKEN|REDISCLI_AUTH|MYSQL_PWD)=(.+)")
_URL_SECRET: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/:@\s]*:([^/@\s]+)@", re.IGNORECASE)


def _is_secret(text: str) -> bool:
    return bool(text) and not text.startswith(("`", "<", "-", "{{")) and "$" not in text


def _credential(probe: ProbeCommand) -> Iterator[Met]:
    for simple in probe.command.simple:
        told = _told_secret(simple)
        if told is not None:  # never the credential itself
            yield Met(probe.place, f"{shown_program(simple.program)} is given one by {told}.")


def _told_secret(simple: Simple) -> str | None:
    for index, word in enumerate(simple.words):
        for name in _PASSWORD_OPTIONS.get(simple.program, ()):
            separate = not simple.program.startswith(("mysql", "mariadb"))  # there a password is joined, or asked for
            following = simple.words[index + 1] if separate and index + 1 < len(simple.words) else ""
            joined = word[len(name) :].removeprefix("=") if word.startswith(name) else ""
            value = following if word == name else joined
            if _is_secret(value) and not (name == "-p" and word.startswith("--")) and (name != "-u" or ":" in value):
                return name
        match = _URL_SECRET.search(word[:2000])
        if match and _is_secret(match[1]):
            return "a URL"
        if word.lower().startswith("authorization:") and _is_secret(word.rpartition(" ")[2]):
            return "the header Authorization"
    for variable in simple.variables:
        match = _SECRET_VARIABLE.match(variable)
        if match and _is_secret(match[1]):
            return variable.partition("=")[0]
    return None


_PRINTS: Final = frozenset({"ps", "top", "dmesg", "journalctl", "find", "netstat", "lsof", "env", "printenv"})


def _output(probe: ProbeCommand) -> Iterator[Met]:
    command = probe.command
    if command.piped or "/dev/null" in (command.script or ""):
        return
    for simple in command.simple:
        log = simple.program in {"cat", "tail", "head"} and any(
            word.endswith((".log", "/log")) for word in simple.words
        )
        verbose = simple.program == "curl" and {"-v", "--verbose", "--trace"} & set(simple.words)
        if simple.program in _PRINTS or log or verbose:
            yield Met(probe.place, f"{command.text}.")
            return


_START_SECONDS: Final[Mapping[str, int]] = {
    "nodetool": 5, "java": 5, "kafka-topics.sh": 5, "kafka-topics": 5, "kafka-broker-api-versions.sh": 5,
    "kafka-broker-api-versions": 5, "kafka-consumer-groups.sh": 5, "rabbitmqctl": 5, "rabbitmq-diagnostics": 5,
    "jcmd": 2, "cqlsh": 2, "kubectl": 1, "python": 1, "python3": 1, "node": 1, "npm": 2, "npx": 2, "dotnet": 1,
    "ruby": 1, "php": 1, "mongosh": 2, "mongo": 1, "sqlcmd": 1, "curl": 1, "wget": 1, "aws": 2, "gcloud": 2, "az": 2,
}  # fmt: skip
"""What a program's start, and an answer, can take on a busy half of a processor. A timeout up to that is too short."""


def _heavy(probe: ProbeCommand) -> Iterator[Met]:
    for program in probe.command.programs:
        seconds = _START_SECONDS.get(program, 0)
        if probe.timeout <= seconds:
            yield Met(probe.timeout_place, f"{program} has {probe.timeout:g} s to start and to get an answer.")
            return


def _http_by_command(probe: ProbeCommand) -> Iterator[Met]:
    simple = probe.command.simple
    programs = [each for each in simple if each.program not in SHELLS | {"exit", "true", "false"}]
    if not probe.by_kubelet or len(programs) != 1 or programs[0].program not in {"curl", "wget"}:
        return
    host = asked_host(programs[0])
    needs_more = {"-k", "--cert", "--cacert", "-u", "--user", "-d", "--data", "-X", "--unix-socket"} & set(
        programs[0].words
    )
    if host is not None and is_local(host, frozenset()) and not needs_more:
        yield Met(probe.place, f"{probe.command.text}.")


_OPERATORS: Final = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1", ">/dev/null", "2>/dev/null"})
_OWN_OPERATORS: Final = frozenset({"find", "test", "[", "[[", "expr"})
"""Programs to which some of these are arguments."""

_DOLLAR: Final = re.compile(r"(?:--?[\w-]+=|\w+://(?:[^/\s]*@)?)?\$(?:\{[A-Z_][A-Z0-9_]*\}|[A-Z_][A-Z0-9_]*)(?![\w(])")
"""``$NAME`` where a value begins. The kubelet knows ``$(NAME)``, which is none."""


def _no_shell(probe: ProbeCommand) -> Iterator[Met]:
    command = probe.command
    if command.script is not None or not command.argv or _OWN_OPERATORS.intersection(command.programs):
        return
    word = next((word for word in command.argv[1:] if word in _OPERATORS), None)
    dollars = (match for word in probe.dollars if (match := _DOLLAR.match(word[:200])))
    word = word or next((match[0][match[0].index("$") :] for match in dollars), None)
    if word is not None:
        yield Met(probe.place, f"{clipped(shown_program(command.argv[0]), 40)} is given {clipped(word, 40)}.")


def _one_word(probe: ProbeCommand) -> Iterator[Met]:
    argv = probe.command.argv
    if len(argv) == 1 and " " in argv[0].strip():
        yield Met(probe.place, f"It is {clipped(from_script(argv[0]).text, 60)}.")


COMMAND_CHECKS: Final[tuple[tuple[Rule, Callable[[ProbeCommand], Iterator[Met]]], ...]] = (
    (WRITES, _writes),
    (CURL_WITHOUT_FAIL, _curl_without_fail),
    (NEEDLESS_SHELL, _needless_shell),
    (PIPE, _pipe),
    (CREDENTIAL, _credential),
    (OUTPUT, _output),
    (HEAVY, _heavy),
    (HTTP_BY_COMMAND, _http_by_command),
    (NO_SHELL, _no_shell),
    (ONE_WORD, _one_word),
)
