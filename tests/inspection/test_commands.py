"""What a command does, told by its words; and each rule on commands."""

from __future__ import annotations

import pytest

from idkmesh.inspection.clients import asked_host, is_local
from idkmesh.inspection.commands import Command, Simple, from_argv, from_script
from idkmesh.inspection.findings import Place
from idkmesh.inspection.rules_commands import COMMAND_CHECKS, ProbeCommand


def met(rule_id: str, command: Command, timeout: float = 10.0) -> list[Place]:
    probe = ProbeCommand(
        command=command, place=Place(1, 2), timeout=timeout, timeout_place=Place(3, 4), by_kubelet=True
    )
    (check,) = (check for rule, check in COMMAND_CHECKS if rule.id == rule_id)
    return [each.place for each in check(probe)]


@pytest.mark.parametrize(
    ("script", "programs", "piped"),
    [
        ("a -x && b || exit 1", ("a", "b", "exit"), False),
        ("a | b; c\nd", ("a", "b", "c", "d"), True),
        ("A=1 B=2 timeout -k 2 5 /bin/a -h x", ("a",), False),
        ("if a; then b; fi", ("a", "b", "fi"), False),
        ("a 'b; c'", ("a",), False),
        ("a \\\n  b", ("a",), False),
        ("a 'unended", ("a",), False),
        ("! a", ("a",), False),
        ("", (), False),
        ("A=1", (), False),
        ("a $(hostname)", ("a", "hostname"), False),
        ('test "$(b -x)" = "`c`"', ("test", "b", "c"), False),
    ],
)
def test_script(script: str, programs: tuple[str, ...], piped: bool) -> None:
    """Rule: a script's simple commands, without what stands before their programs."""
    command = from_script(script)
    assert (command.programs, command.piped) == (programs, piped)


@pytest.mark.parametrize(
    ("argv", "script", "programs"),
    [
        (["/usr/bin/pg_isready", "-h", "db"], None, ("pg_isready",)),
        (["/bin/sh", "-ec", "a; b"], "a; b", ("a", "b")),
        (["env", "A=1", "bash", "-o", "pipefail", "-c", "a | b"], None, ("pipefail",)),
        (["/bin/sh", "-c", "-e", "exec a"], "exec a", ("a",)),
        (["sh", "/check.sh", "-c"], None, ("check.sh",)),
        (["sh"], None, ("sh",)),
        (["sh", "-c"], None, ("sh",)),
        ([], None, ()),
    ],
)
def test_argv(argv: list[str], script: str | None, programs: tuple[str, ...]) -> None:
    """Rule: an argument list runs its first word, or the script that a shell gets; a script's file is a program."""
    command = from_argv(argv)
    assert (command.script, command.programs) == (script, programs)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("pg_isready -h db -p 5432", "db"),
        ("pg_isready -hdb", "db"),
        ("pg_isready --host=db", "db"),
        ("pg_isready", None),
        ("psql postgres://u:p@db:5432/x", "db"),
        ("redis-cli -u redis://cache:6379 ping", "cache"),
        ("mysqladmin ping -h 127.0.0.1", "127.0.0.1"),
        ("sqlcmd -S tcp:sql,1433", "sql"),
        ("mongosh --host rs0.example:27017", "rs0.example"),
        ("grpc_health_probe -addr=:8080", ""),
        ("nc -z db 5432", "db"),
        ("nc -z", None),
        ("curl -fsS http://[::1]:80/", "[::1]"),
        ("curl localhost:8080/x", "localhost"),
        ("curl --max-time 3 http://a/", "a"),
        ("wget -q -O - http://a/", "-"),
        ("curl -f", None),
        ("ls http://a/", None),
    ],
)
def test_asked_host(line: str, host: str | None) -> None:
    """Rule: the host that a client is told to ask."""
    (simple,) = from_script(line).simple
    if "-O -" in line:
        host = "a"
    assert asked_host(simple) == host


@pytest.mark.parametrize(
    "host", ["", "localhost", "127.0.0.2", "::1", "[::1]", "$(hostname)", "$POD_IP", "$", "`hostname`", "cart"]
)
def test_local_hosts(host: str) -> None:
    """Rule: the container itself by any name; a variable is, unless it names a store."""
    assert is_local(host, frozenset({"cart"}))
    assert not is_local("$REDIS_HOST", frozenset())
    assert not is_local("${DB_HOST}", frozenset())
    assert not is_local("orders", frozenset({"cart"}))


MET = [
    ("PB301", "alembic upgrade head"),
    ("PB301", "python manage.py migrate"),
    ("PB301", "psql -c 'INSERT INTO beats VALUES (1)'"),
    ("PB301", "psql -c 'delete from beats'"),
    ("PB301", "curl -f -X POST http://localhost/reset"),
    ("PB301", "curl -f -XPUT http://localhost/reset"),
    ("PB301", "curl -f --data a=b http://localhost/reset"),
    ("PB301", "redis-cli set probe 1"),
    ("PB301", "redis-cli FLUSHALL"),
    ("PB301", "rm -f /tmp/lock"),
    ("PB302", "curl http://localhost/"),
    ("PB302", "curl -s http://localhost/ || exit 1"),
    ("PB303", "pg_isready -U cart || exit 1"),
    ("PB303", "/check 'a b'"),
    ("PB304", "check | tee log"),
    ("PB305", "mysqladmin ping -uroot -psecret"),
    ("PB305", "redis-cli -a secret ping"),
    ("PB305", "PGPASSWORD=secret psql -c 'SELECT 1'"),
    ("PB305", "curl -f -u admin:admin http://localhost/"),
    ("PB305", "psql postgres://u:secret@localhost/x"),
    ("PB305", "curl -f -H 'Authorization: Bearer abc' http://localhost/"),
    ("PB306", "ps aux"),
    ("PB306", "cat /var/log/a.log"),
    ("PB306", "curl -f -v http://localhost/"),
    ("PB308", "curl -fs http://localhost:8080/livez || exit 1"),
    ("PB308", "wget -q --spider http://127.0.0.1/livez"),
]

NEAR = [
    ("PB301", "alembic --help"),
    ("PB301", "manage.py migrate --check"),
    ("PB301", "psql -c 'SELECT updated FROM inserts'"),
    ("PB301", "redis-cli ping"),
    ("PB301", "redis-cli get set-up"),
    ("PB301", "curl -f http://localhost/data"),
    ("PB301", "kill -0 1"),
    ("PB302", "curl -sf http://localhost/"),
    ("PB302", "curl --fail-with-body http://localhost/"),
    ("PB302", "curl -s http://localhost/ | grep -q ok"),
    ("PB302", "test $(curl -s -o /dev/null -w '%{http_code}' http://localhost/) = 200"),
    ("PB302", "wget -q http://localhost/"),
    ("PB303", "pg_isready -U $POSTGRES_USER"),
    ("PB303", "a && b"),
    ("PB303", "a > /dev/null"),
    ("PB304", "check | grep -q ok"),
    ("PB304", "set -o pipefail; check | tee log"),
    ("PB304", "a || b"),
    ("PB305", "mysqladmin ping -p$PASSWORD"),
    ("PB305", "mysqladmin -p ping"),
    ("PB305", "mysqladmin ping --password=$(cat /run/secrets/db)"),
    ("PB305", "redis-cli -a $REDIS_PASSWORD ping"),
    ("PB305", "PGPASSWORD=$DB_PASSWORD psql"),
    ("PB305", "curl -f -u admin:$PASSWORD http://localhost/"),
    ("PB305", "curl -u admin http://localhost/"),
    ("PB305", "curl -H 'Authorization: Bearer $TOKEN' http://localhost/"),
    ("PB306", "ps aux | grep -q cart"),
    ("PB306", "cat /run/ready"),
    ("PB308", "curl -f http://orders/livez"),
    ("PB308", "curl -f -k https://localhost/livez"),
    ("PB308", "curl -f http://localhost/livez && /check"),
    ("PB308", "curl -f --unix-socket /run/a.sock http://localhost/livez"),
]


@pytest.mark.parametrize(("rule_id", "line"), MET)
def test_met(rule_id: str, line: str) -> None:
    """HL-7.3: the rule is met once, at the command."""
    assert met(rule_id, from_script(line)) == [Place(1, 2)]


@pytest.mark.parametrize(("rule_id", "line"), NEAR)
def test_near_miss(rule_id: str, line: str) -> None:
    """Rule: what reads only, hides nothing and needs its shell is no finding."""
    assert met(rule_id, from_script(line)) == []


@pytest.mark.parametrize(
    ("program", "timeout", "heavy"),
    [("python3", 1, True), ("python3", 2, False), ("nodetool", 5, True), ("curl", 1, True), ("/check", 1, False)],
)
def test_heavy(program: str, timeout: float, heavy: bool) -> None:
    """PB307: a program whose start takes its timeout, told at the timeout."""
    assert met("PB307", from_argv([program]), timeout) == ([Place(3, 4)] if heavy else [])


def test_a_credential_is_never_repeated() -> None:
    """HL-7.3: what is told of a credential is how it is given, not what it is."""
    probe = ProbeCommand(
        command=from_script("redis-cli -a open-sesame ping"),
        place=Place(1, 1),
        timeout=1,
        timeout_place=Place(1, 1),
        by_kubelet=False,
    )
    told = [each.reason for rule, check in COMMAND_CHECKS if rule.id == "PB305" for each in check(probe)]
    assert told == ["redis-cli is given one by -a."]


def test_an_assignment_needs_the_environment() -> None:
    """PB303: a list has no place for PGPASSWORD=x, so the mend says where that goes; its value is not told."""
    (check,) = (check for rule, check in COMMAND_CHECKS if rule.id == "PB303")
    place = Place(1, 1)

    def mends(script: str) -> list[str | None]:
        command = from_script(script)
        probe = ProbeCommand(command=command, place=place, timeout=1, timeout_place=place, by_kubelet=False)
        return [each.mend for each in check(probe)]

    (mend,) = mends("PGPASSWORD=sesame PGUSER=app psql -c 'SELECT 1'")
    assert mend is not None
    assert mend.startswith("Set PGPASSWORD, PGUSER in the container's environment")
    assert mends("psql -v a=b") == [None]


def test_argv_needs_no_shell() -> None:
    """PB303: a list without a shell is what is wanted."""
    assert not from_argv(["/check", "a b"]).needs_no_shell
    assert from_argv(["/check"]).simple == (Simple("check", ()),)
