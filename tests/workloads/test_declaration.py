"""What a declaration of modules may say, and how a person is told that it may not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.validation.findings import MatrixError, Rule
from idkmesh.workloads.declaration import (
    MAX_FILE_BYTES,
    DeclarationError,
    load_declaration,
    read_declaration,
)
from idkmesh.workloads.model import (
    Declaration,
    DesiredModule,
    LeaseSpec,
    LxdPlatform,
    ModuleKind,
    Readiness,
    SupervisorSpec,
)
from idkmesh.workloads.module_rules import DECLARATION, MAX_CLASSES, MAX_IN_ALL, MAX_INSTANCES, MAX_MODULES, SHELLS
from tests.health.matrices import marked
from tests.judging_time import seconds_to_judge
from tests.workloads.declarations import (
    BASE,
    EXAMPLE,
    HEAD,
    ROW,
    findings,
    in_all,
    many,
    with_command,
    with_part,
    with_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def module(text: str) -> DesiredModule:
    """Return the one module of a file."""
    (only,) = load_declaration(text, "m.yaml").modules
    return only


# --- what is right ---------------------------------------------------------------------------------------------------


def test_as_many_as_there_may_be() -> None:
    """AR-2.5: ten thousand instances over all modules are a declaration."""
    assert sum(len(each.instances) for each in load_declaration(in_all(MAX_IN_ALL), "m.yaml").modules) == MAX_IN_ALL


def test_the_example_is_what_it_says() -> None:
    """AR-2.1, AR-2.2, AR-2.6: the file that is shown to users, value by value, classes and defaults applied."""
    web = DesiredModule(
        name="web",
        kind=ModuleKind.STATELESS,
        driver="lxd",
        instances=("web-1", "web-2"),
        port=8080,
        readiness=Readiness(("/usr/local/bin/check", "--fast"), 3),
    )
    db = DesiredModule(
        name="db",
        kind=ModuleKind.STATEFUL,
        driver="lxd",
        class_name="postgres",
        instances=("db-1",),
        readiness=Readiness(("/usr/bin/pg_isready", "-q"), 5),
    )
    cache = DesiredModule(
        name="cache",
        kind=ModuleKind.SINGLETON,
        driver="lxd",
        class_name="redis",
        selector={"user.idkmesh.module": "cache"},
        port=6380,
        readiness=Readiness(("redis-cli", "-e", "-p", "6380", "ping"), 5),
    )
    asking = "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8089/', timeout=2)"
    docs = DesiredModule(
        name="docs",
        kind=ModuleKind.STATELESS,
        driver="process",
        replicas=1,
        argv=("python3", "-m", "http.server", "8089", "--bind", "127.0.0.1", "--directory", "docs"),
        port=8089,
        readiness=Readiness(("python3", "-c", asking), 5),
    )
    assert read_declaration(EXAMPLE) == Declaration(
        modules=(web, db, cache, docs),
        supervisor=SupervisorSpec(interval_s=5, cooldown_s=300, lease=LeaseSpec(kind="sqlite", ttl_s=15)),
        lxd=LxdPlatform(socket="/var/lib/lxd/unix.socket", project="default"),
    )


def test_what_is_left_out_has_its_default() -> None:
    """AR-2.1, AR-2.3, AR-2.8: 5 s a pass, 300 s cooldown, a lease in SQLite of 15 s, 5 s a command."""
    declared = load_declaration('schema_version: "0.1"\nkind: idkmesh-modules\nmodules: []\n', "m.yaml")
    assert declared == Declaration(modules=())
    assert declared.supervisor == SupervisorSpec(interval_s=5, cooldown_s=300, lease=LeaseSpec())
    assert declared.supervisor.lease == LeaseSpec(kind="sqlite", ttl_s=15, path=None, endpoints=(), name="default")
    assert module(with_command("[check]")).readiness == Readiness(("check",), 5)
    assert module(BASE).readiness is None


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        ("{sqlite: {}}", LeaseSpec()),
        ("{sqlite: {path: /a b/ü}, ttl_s: 300, name: a}", LeaseSpec(path="/a b/ü", ttl_s=300, name="a")),
        (
            "{etcd: {endpoints: ['https://etcd-1:2379/', 'http://[::1]']}, ttl_s: 7}",
            LeaseSpec(kind="etcd", endpoints=("https://etcd-1:2379/", "http://[::1]"), ttl_s=7),
        ),
    ],
)
def test_leases(lease: str, expected: LeaseSpec) -> None:
    """AR-2.8: each store with all that it takes."""
    assert load_declaration(with_part("supervisor", f"{{lease: {lease}}}"), "m.yaml").supervisor.lease == expected


def test_https() -> None:
    """AR-2.8: LXD by HTTPS, with a client's certificate."""
    spec = "{url: 'https://lxd.example:8443', cert: /a, key: /b, server_cert: /c, project: shop.1}"
    expected = LxdPlatform(
        url="https://lxd.example:8443", cert="/a", key="/b", server_cert="/c", project="shop.1", socket=None
    )
    assert load_declaration(with_part("platforms", f"{{lxd: {spec}}}"), "m.yaml").lxd == expected


def test_the_modules_own_command_wins() -> None:
    """AR-2.2, AR-2.6: its own before its class, and a class of the file before the catalog's."""
    own = with_row(**{"class": "redis", "readiness": "{command: [own]}"})
    assert module(own).readiness == Readiness(("own",))
    assert module(own).class_name == "redis"
    of_class = with_row(**{"class": "redis"})
    assert module(of_class).readiness == Readiness(("redis-cli", "-e", "-p", "80", "ping"))
    declared = of_class.replace("modules:", "classes: {redis: {runtime: {readiness: {command: [mine]}}}}\nmodules:")
    assert module(declared).readiness == Readiness(("mine",))


def test_the_table_has_the_names_of_the_model() -> None:
    """AR-2.4: what the table calls a member of a platform is what the model calls it."""
    lxd: Any = DECLARATION.members["platforms"]
    assert lxd.members["lxd"].members.keys() == {field.name for field in dataclasses.fields(LxdPlatform)}
    kinds: Any = DECLARATION.members["modules"]
    assert kinds.item.members["kind"].words == tuple(kind.value for kind in ModuleKind)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("[a]", Readiness(("a",))),
        ("[/usr/bin/g++-12_x, '', ' ', a b, 😀, '*', '$(x)']", None),
        (f"[{'a' * 200}, {', '.join(['b' * 200] * 8)}]", Readiness(("a" * 200, *["b" * 200] * 8))),
        ("[/bin/shell]", Readiness(("/bin/shell",))),
        ("[sh.py]", Readiness(("sh.py",))),
        ("[sh/check]", Readiness(("sh/check",))),
        ("[env, sh]", Readiness(("env", "sh"))),
        ("[pwsh, -c]", Readiness(("pwsh", "-c"))),
    ],
)
def test_commands(command: str, expected: Readiness | None) -> None:
    """AR-2.3: a program of its signs, and up to 8 arguments, of up to 200 characters of any kind but control."""
    readiness = module(with_command(command)).readiness
    assert readiness is not None
    assert expected in {None, readiness}


@pytest.mark.parametrize(("written", "expected"), [("1", 1), ("15", 15), ("5.0", 5)])
def test_time_limits(written: str, expected: int) -> None:
    """AR-2.3: whole numbers from 1 to 15; 5.0 is whole, as in JSON Schema."""
    readiness = module(with_command("[a]", timeoutSecs=written)).readiness
    assert readiness == Readiness(("a",), expected)
    assert type(readiness.timeout_secs) is int


# --- what is refused: the text with @@ before the place, the rule, module, field, and a part of the line --------------

RefusedRow = tuple[str, Rule, str | None, str, str]
PROCESS = {"driver": "process", "instances": "", "replicas": "1", "process": "{argv: [a]}"}

REFUSED: dict[str, RefusedRow] = {
    "no YAML": (BASE + "  - {name: [@@}\n", Rule.SYNTAX, None, "", "this is no YAML"),
    "a list": ("@@- a\n", Rule.TYPE, None, "", "the file is a list where a mapping is wanted"),
    "an alias": (with_row(port="@@*a"), Rule.ALIAS, "web", "port", "write out what it stands for"),
    "a tag": (with_row(name="@@!!str web"), Rule.TAG, "#1", "name", "leave it out"),
    "a key twice": (BASE.replace("port: 80", "port: 80, @@port: 81"), Rule.DUPLICATE_KEY, "web", "port", "in line 5"),
    "a key twice in the file": (BASE + "@@kind: idkmesh-modules\n", Rule.DUPLICATE_KEY, None, "kind", "in line 2"),
    "an unknown key": (BASE + "@@module: []\n", Rule.UNKNOWN_KEY, None, "module", "did you mean modules?"),
    "an unknown key of a module": (with_row(**{"@@prt": "5"}), Rule.UNKNOWN_KEY, "web", "prt", "did you mean port?"),
    "seconds with another name": (
        with_command("[a]", **{"@@timeout_secs": "5"}),
        Rule.UNKNOWN_KEY,
        "web",
        "readiness.timeout_secs",
        "did you mean timeoutSecs?",
    ),
    "no modules": ('@@schema_version: "0.1"\nkind: idkmesh-modules\n', Rule.MISSING_KEY, None, "", "add modules"),
    "another kind of file": (
        BASE.replace("idkmesh-m", "@@idkmesh-M"),
        Rule.FORM,
        None,
        "kind",
        "write idkmesh-modules",
    ),
    "a text as a command": (
        with_command("@@'check --fast'"),
        Rule.TYPE,
        "web",
        "readiness.command",
        "a list of 1 to 9",
    ),
    "a line as a command": (
        with_command("@@python3 check.py"),
        Rule.TYPE,
        "web",
        "readiness.command",
        "is text where a list of 1 to 9 is wanted; write each word as an item of a list, such as [python3, check.py]",
    ),
    "no command": (with_row(readiness="@@{}"), Rule.MISSING_KEY, "web", "readiness", "readiness has no command"),
    "an empty command": (with_command("@@[]"), Rule.RANGE, "web", "readiness.command", "has 0 items"),
    "nine arguments": (
        with_command(f"@@[{', '.join('a' * 10)}]"),
        Rule.RANGE,
        "web",
        "readiness.command",
        "has 10 items",
    ),
    "an empty program": (with_command("[@@'']"), Rule.RANGE, "web", "readiness.command[0]", "0 characters"),
    "a program of 201 characters": (
        with_command(f"[@@{'a' * 201}]"),
        Rule.RANGE,
        "web",
        "readiness.command[0]",
        "201 characters",
    ),
    "an argument of 201 characters": (
        with_command(f"[a, @@{'a' * 201}]"),
        Rule.RANGE,
        "web",
        "readiness.command[1]",
        "item 2 of command has 201",
    ),
    "a space in a program": (
        with_command("[@@a b]"),
        Rule.FORM,
        "web",
        "readiness.command[0]",
        "a space as character 2",
    ),
    "a home folder": (
        with_command("[@@~/check.py]"),
        Rule.FORM,
        "web",
        "readiness.command[0]",
        "has '~' as character 1, and is not a program of A-Z, a-z, 0-9 and _ . / + -; write the whole path: no shell",
    ),
    "a line feed after a program": (with_command('[@@"a\\n"]'), Rule.FORM, "web", "readiness.command[0]", "U+000A as"),
    "a tab in an argument": (with_command('[a, @@"b\\tc"]'), Rule.FORM, "web", "readiness.command[1]", "control"),
    "a NUL in an argument": (with_command('[a, @@"\\0"]'), Rule.FORM, "web", "readiness.command[1]", "control"),
    "a C1 control": (with_command('[a, @@"\\x9b"]'), Rule.FORM, "web", "readiness.command[1]", "control"),
    "a delete": (with_command('[a, @@"\\x7f"]'), Rule.FORM, "web", "readiness.command[1]", "control"),
    "a number in a command": (
        with_command("[sleep, @@5]"),
        Rule.TYPE,
        "web",
        "readiness.command[1]",
        "put it in quotes",
    ),
    "0 seconds": (
        with_command("[a]", timeoutSecs="@@0"),
        Rule.RANGE,
        "web",
        "readiness.timeoutSecs",
        "timeoutSecs is 0; write a whole number of seconds from 1 to 15",
    ),
    "16 seconds": (with_command("[a]", timeoutSecs="@@16"), Rule.RANGE, "web", "readiness.timeoutSecs", "is 16"),
    "half a second": (with_command("[a]", timeoutSecs="@@1.5"), Rule.TYPE, "web", "readiness.timeoutSecs", "whole"),
    "seconds in quotes": (
        with_command("[a]", timeoutSecs="@@'5'"),
        Rule.TYPE,
        "web",
        "readiness.timeoutSecs",
        "without quotes",
    ),
    "true as seconds": (with_command("[a]", timeoutSecs="@@true"), Rule.TYPE, "web", "readiness.timeoutSecs", "true"),
    "no number of seconds": (
        with_command("[a]", timeoutSecs="@@.nan"),
        Rule.TYPE,
        "web",
        "readiness.timeoutSecs",
        "whole number",
    ),
    "a command of a class": (
        with_part("classes", "{a: {runtime: {readiness: {command: [@@sh]}}}}"),
        Rule.SHELL,
        None,
        "classes.a.runtime.readiness.command[0]",
        "is a shell",
    ),
    "a class without a command": (
        with_part("classes", "{a: {runtime: @@{}}}"),
        Rule.MISSING_KEY,
        None,
        "classes.a.runtime",
        "add readiness",
    ),
    "capitals in a name of a class": (
        with_part("classes", "{@@A: {runtime: {readiness: {command: [a]}}}}"),
        Rule.FORM,
        None,
        "classes.A",
        "a key of classes",
    ),
    "an unknown class": (
        with_row(**{"class": "@@postgres"}),
        Rule.UNKNOWN_CLASS,
        "web",
        "class",
        "did you mean postgresql? (or declare it under classes)",
    ),
    "an unknown class that is like none": (
        with_row(**{"class": "@@zzz"}),
        Rule.UNKNOWN_CLASS,
        "web",
        "class",
        "known are postgresql, redis, mariadb, nginx, rabbitmq, http (or declare it",
    ),
    "nothing to tell by": (
        with_row(port="").replace("name: web", "@@name: web"),
        Rule.MISSING_KEY,
        "web",
        "",
        "has no port or readiness or class",
    ),
    "an unknown kind": (with_row(kind="@@statefull"), Rule.FORM, "web", "kind", "not known; did you mean stateful?"),
    "another version": (BASE.replace('"0.1"', '@@"0.2"'), Rule.FORM, None, "schema_version", 'not known; write "0.1"'),
    "an unknown driver": (with_row(driver="@@docker"), Rule.FORM, "web", "driver", "write lxd or process"),
    "port 0": (with_row(port="@@0"), Rule.RANGE, "web", "port", "from 1 to 65,535"),
    "a port in quotes": (
        with_row(port='@@"8080"'),
        Rule.TYPE,
        "web",
        "port",
        "port is text where a whole number from 1 to 65,535 is wanted; write it without quotes [",
    ),
    "no port but a word": (with_row(port="@@http"), Rule.TYPE, "web", "port", "is wanted; write such a number ["),
    "capitals in a name": (
        with_row(name="@@Web"),
        Rule.FORM,
        "#1",
        "name",
        "name has 'W' as character 1, and is not a name of a-z and 0-9, with - inside; write w there [",
    ),
    "an underscore in a name": (
        with_row(name="@@web_1"),
        Rule.FORM,
        "#1",
        "name",
        "name has '_' as character 4, and is not a name of a-z and 0-9, with - inside; write - there [",
    ),
    "another sign in a name": (with_row(name="@@wéb"), Rule.FORM, "#1", "name", "write another character there ["),
    "a name that begins with -": (with_row(name="@@-web"), Rule.FORM, "#1", "name", "write a name of a-z"),
    "a name of 64 characters": (with_row(name="@@" + "a" * 64), Rule.RANGE, "#1", "name", "64 characters"),
    "a name twice": (
        BASE + ROW.replace("name: web", "name: @@web").replace("web-1", "web-2"),
        Rule.DUPLICATE_NAME,
        "web",
        "name",
        "the name web is there already, in line 5",
    ),
    "an instance that begins with a digit": (
        with_row(instances="[@@1a]"),
        Rule.FORM,
        "web",
        "instances[0]",
        "begins with a letter",
    ),
    "an instance with a dot": (
        with_row(instances="[@@a.b]"),
        Rule.FORM,
        "web",
        "instances[0]",
        "has '.' as character 2, and is not a name of letters and 0-9 that begins with a letter, with - inside; write",
    ),
    "an instance twice": (
        with_row(instances="[a, b, @@a]"),
        Rule.INSTANCE_TWICE,
        "web",
        "instances[2]",
        "named already by module web, in line 8; keep one",
    ),
    "an instance of two modules": (
        BASE + ROW.replace("name: web", "name: other").replace("[web-1]", "[@@web-1]"),
        Rule.INSTANCE_TWICE,
        "other",
        "instances[0]",
        "the instance web-1 is named already by module web, in line 5; ",
    ),
    "no instances": (with_row(instances="@@[]"), Rule.RANGE, "web", "instances", "has 0 items"),
    "1,001 instances": (
        with_row(instances=f"@@[{', '.join(f'a{number}' for number in range(MAX_INSTANCES + 1))}]"),
        Rule.RANGE,
        "web",
        "instances",
        "1,001 items",
    ),
    "too many instances in all": (
        in_all(MAX_IN_ALL + 1),
        Rule.RANGE,
        "web-10",
        "instances",
        "has 10,001 instances and",
    ),
    "too many replicas in all": (
        in_all(MAX_IN_ALL)
        + "  - {name: local, kind: stateless, driver: process, replicas: @@64, process: {argv: [a]},"
        + " readiness: {command: [a]}}\n"
        + "  - {name: more, kind: stateless, driver: process, replicas: 64, process: {argv: [a]},"
        + " readiness: {command: [a]}}\n",
        Rule.RANGE,
        "local",
        "replicas",
        "has 10,064 instances and replicas, more than 10,000; give some modules a file of their own",
    ),
    "neither instances nor selector": (
        with_row(instances="").replace("name: web", "@@name: web"),
        Rule.MISSING_KEY,
        "web",
        "",
        "with driver: lxd has no instances or selector",
    ),
    "both": (
        with_row(selector="@@{a: b}").replace("selector", "@@selector").replace(": @@", ": "),
        Rule.ONE_OF,
        "web",
        "selector",
        "instances and selector; keep one of them",
    ),
    "a selector of everything": (
        with_row(instances="", selector="@@{}"),
        Rule.RANGE,
        "web",
        "selector",
        "write 1 at least",
    ),
    "a selector of another module": (
        with_row(instances="", selector="{user.idkmesh.module: @@other}"),
        Rule.SELECTOR_OWNER,
        "web",
        "selector.user.idkmesh.module",
        "write web",
    ),
    "replicas of lxd": (with_row(**{"@@replicas": "2"}), Rule.MISPLACED_KEY, "web", "replicas", "driver: lxd"),
    "instances of a process": (
        with_row(**(PROCESS | {"instances": "[a]"})).replace("instances", "@@instances"),
        Rule.MISPLACED_KEY,
        "web",
        "instances",
        "does not go with driver: process",
    ),
    "a process without replicas": (
        with_row(**(PROCESS | {"replicas": ""})).replace("name: web", "@@name: web"),
        Rule.MISSING_KEY,
        "web",
        "",
        "add replicas: a whole number from 1 to 64",
    ),
    "65 replicas": (with_row(**(PROCESS | {"replicas": "@@65"})), Rule.RANGE, "web", "replicas", "is 65"),
    "a port of two processes": (
        with_row(**(PROCESS | {"port": "@@80", "replicas": "2"})),
        Rule.SHARED_PORT,
        "web",
        "port",
        "port with replicas: 2: all processes are at 127.0.0.1, where one can listen; write replicas: 1, or leave",
    ),
    "a relative folder": (
        with_row(**(PROCESS | {"process": "{argv: [a], cwd: @@b}"})),
        Rule.FORM,
        "web",
        "process.cwd",
        "begins with /",
    ),
    "no platform": (
        BASE.replace("platforms: {lxd: {socket: /var/lib/lxd/unix.socket}}\n", "").replace(": lxd", ": @@lxd"),
        Rule.PLATFORM,
        "web",
        "driver",
        "add platforms: {lxd: {socket: ",
    ),
    "no way to the platform": (
        with_part("platforms", "{lxd: @@{project: a}}"),
        Rule.MISSING_KEY,
        None,
        "platforms.lxd",
        "add socket or url",
    ),
    "two ways to the platform": (
        with_part("platforms", "{lxd: {url: 'https://a', @@socket: /a}}"),
        Rule.ONE_OF,
        None,
        "platforms.lxd.socket",
        "keep one of them",
    ),
    "a certificate for a socket": (
        with_part("platforms", "{lxd: {socket: /a, @@cert: /a}}"),
        Rule.MISPLACED_KEY,
        None,
        "platforms.lxd.cert",
        "cert does not go with socket",
    ),
    "a URL without encryption": (
        with_part("platforms", "{lxd: {url: @@'http://a', cert: /a, key: /b}}"),
        Rule.FORM,
        None,
        "platforms.lxd.url",
        "https://host:8443",
    ),
    "a URL with a password": (
        with_part("platforms", "{lxd: {url: @@'https://scott:tiger@a', cert: /a, key: /b}}"),
        Rule.CREDENTIALS,
        None,
        "platforms.lxd.url",
        "take them out",
    ),
    "a socket of 108 characters": (
        with_part("platforms", f"{{lxd: {{socket: @@/{'a' * 107}}}}}"),
        Rule.RANGE,
        None,
        "platforms.lxd.socket",
        "108 characters",
    ),
    "a short interval": (
        with_part("supervisor", "{interval_s: @@0}"),
        Rule.RANGE,
        None,
        "supervisor.interval_s",
        "from 1 to 60",
    ),
    "a short cooldown": (
        with_part("supervisor", "{cooldown_s: @@59}"),
        Rule.RANGE,
        None,
        "supervisor.cooldown_s",
        "from 60 to 86,400",
    ),
    "a unit": (
        with_part("supervisor", "{cooldown_s: @@30s}"),
        Rule.TYPE,
        None,
        "supervisor.cooldown_s",
        "is text where a whole number of seconds from 60 to 86,400 is wanted; write the number alone, without its",
    ),
    "no store of leases": (
        with_part("supervisor", "{lease: @@{ttl_s: 20}}"),
        Rule.MISSING_KEY,
        None,
        "supervisor.lease",
        "has no sqlite or etcd",
    ),
    "two stores of leases": (
        with_part("supervisor", "{lease: {sqlite: {}, @@etcd: {endpoints: ['http://a']}}}"),
        Rule.ONE_OF,
        None,
        "supervisor.lease.etcd",
        "lease has sqlite and etcd",
    ),
    "a short lease": (
        with_part("supervisor", "{lease: {sqlite: {}, ttl_s: @@4}}"),
        Rule.RANGE,
        None,
        "supervisor.lease.ttl_s",
        "from 5 to 300",
    ),
    "a lease that ends between passes": (
        with_part("supervisor", "{interval_s: @@13}"),
        Rule.LEASE_TIME,
        None,
        "supervisor.interval_s",
        "a lease of 15 s may not be acted on after 12 s, before the next pass at 13 s; write ttl_s: 17 or more",
    ),
    "a lease that ends before the usual pass": (
        with_part("supervisor", "@@{lease: {sqlite: {}, ttl_s: 6}}"),
        Rule.LEASE_TIME,
        None,
        "supervisor.interval_s",
        "after 4.8 s, before the next pass at 5 s; write ttl_s: 7",
    ),
    "65 classes": (
        with_part(
            "classes",
            "@@{" + ", ".join(f"a{n}: {{runtime: {{readiness: {{command: [a]}}}}}}" for n in range(65)) + "}",
        ),
        Rule.RANGE,
        None,
        "classes",
        f"write {MAX_CLASSES} at most",
    ),
    "the 1,001st": (
        many(MAX_MODULES + 1).replace("modules:\n  - ", "modules:\n  @@- "),
        Rule.RANGE,
        None,
        "modules",
        "modules has 1,001 items; write a list of 0 to 1,000",
    ),
}


@pytest.mark.parametrize(("text", "rule", "about", "field", "part"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(text: str, rule: Rule, about: str | None, field: str, part: str) -> None:
    """AR-2.1 to AR-2.5, AR-2.8: a finding for a mistake, with its place, module, field, rule, what, and the mend."""
    text, line, column = marked(text)
    told = {(found.line, found.column, found.rule): found for found in findings(text)}
    finding = told[line, column, rule]
    assert (finding.file, finding.module, finding.field) == ("m.yaml", about, field)
    assert part in str(finding), str(finding)
    whom = ", ".join(filter(None, ("" if about is None else f"module {about}", field)))
    head = f"m.yaml:{line}:{column}: {whom + ': ' if whom else ''}"
    assert str(finding) == f"{head}{finding.what}; {finding.mend} [{rule.value}]"
    assert str(finding).isprintable()


@pytest.mark.parametrize(("text", "rule"), [(row[0], row[1]) for row in REFUSED.values()], ids=REFUSED)
def test_one_mistake_is_one_finding(text: str, rule: Rule) -> None:
    """AR-2.4: what is wrong is told once; a URL beside a socket lacks its certificate besides."""
    found = [finding.rule for finding in findings(text.replace("@@", ""))]
    assert found.count(rule) == 1
    assert set(found) - {rule} <= ({Rule.MISSING_KEY} if rule is Rule.ONE_OF else set())


@pytest.mark.parametrize("name", [*SHELLS, "/bin/sh", "../bash", "/usr/bin/busybox", "./zsh"])
def test_a_shell_is_no_program(name: str) -> None:
    """AR-2.3: refused by its base name, wherever it is, with the reason."""
    text, line, column = marked(with_command(f"[@@{name}, -c, check]"))
    (finding,) = findings(text)
    assert (finding.rule, finding.line, finding.column) == (Rule.SHELL, line, column)
    assert (finding.module, finding.field) == ("web", "readiness.command[0]")


def test_the_shells_are_those_of_the_contract() -> None:
    """AR-2.3: ten names."""
    expected = {"sh", "bash", "dash", "ash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox"}
    assert set(SHELLS) == expected


@pytest.mark.parametrize(("interval", "ttl"), [(4, 5), (12, 15), (60, 75), (60, 300)])
def test_a_lease_that_lasts(interval: int, ttl: int) -> None:
    """AR-6.2: four fifths of it are as long as an interval at the least."""
    text = with_part("supervisor", f"{{interval_s: {interval}, lease: {{sqlite: {{}}, ttl_s: {ttl}}}}}")
    assert load_declaration(text, "m.yaml").supervisor.interval_s == interval
    shorter = text.replace(f"ttl_s: {ttl}", f"ttl_s: {interval * 5 // 4 - 1}")
    assert {finding.rule for finding in findings(shorter)} & {Rule.LEASE_TIME, Rule.RANGE}


def test_a_figure_that_is_wrong_is_not_judged_twice() -> None:
    """AR-2.4: relations are judged where all that they need is right, and nowhere else."""
    for text in (
        with_part("supervisor", "{interval_s: x}"),
        with_part("supervisor", "{interval_s: 60, lease: {sqlite: {}, ttl_s: x}}"),
        with_part("supervisor", "{interval_s: 60, lease: x}").replace("interval_s: 60, ", ""),
        with_part("platforms", "5"),
        with_part("classes", "5").replace("port: 80", "class: mine"),
        HEAD + "  - 5\n" + ROW,
        with_row(instances="5"),
        with_row(instances="", selector="5"),
        with_row(name="5", instances="", selector="{user.idkmesh.module: other}"),
    ):
        assert [finding.rule for finding in findings(text)] == [Rule.TYPE]


def test_a_class_that_is_no_name_is_not_proposed() -> None:
    """AR-2.4: a name that may not stand in the file stands in no finding about another one either."""
    row = with_row(**{"class": "@@zzz"}).replace("@@", "")
    told = [str(found) for found in findings(row + 'classes: {"se cret": null, "zz\\0z": null, fine: null}\n')]
    assert any("known are postgresql, redis, mariadb, nginx, rabbitmq, http, fine (or" in line for line in told)
    assert all(line.isprintable() and "cret" not in line for line in told)
    told = [str(found) for found in findings(row + 'classes: {"zzz\\0": null}\n')]
    assert all(line.isprintable() for line in told)


def test_all_findings_are_told_in_the_order_of_the_file() -> None:
    """AR-2.4: a file is mended in one go; as text the error is the first line and how many more."""
    text = (
        BASE.replace('"0.1"', "1").replace("stateless", "x").replace("port: 80", "port: 0")
        + "  - {name: db, kind: stateful, driver: lxd, instances: [web-1], class: nobody, readiness: {command: [sh]}}\n"
    )
    with pytest.raises(DeclarationError) as caught:
        load_declaration(text, "m.yaml")
    error = caught.value
    assert isinstance(error, ValueError)
    assert not isinstance(error, MatrixError)
    assert [(finding.line, finding.rule, finding.module) for finding in error.findings] == [
        (1, Rule.TYPE, None),
        (5, Rule.FORM, "web"),
        (5, Rule.RANGE, "web"),
        (6, Rule.INSTANCE_TWICE, "db"),
        (6, Rule.UNKNOWN_CLASS, "db"),
        (6, Rule.SHELL, "db"),
    ]
    assert error.lines() == [str(finding) for finding in error.findings]
    assert str(error) == f"{error.lines()[0]} (and 5 more)"


@given(st.sampled_from("@:;/#? \n\\é"))
def test_no_line_repeats_a_text(sign: str) -> None:
    """AR-2.4: whatever stands in a wrong place may be a secret, so its text is never repeated."""
    secret = yaml.safe_dump(f"postgres://scott:tiger@db{sign}x", default_style='"', width=1000).strip()
    for text in (
        with_row(name=secret, kind=secret, port=secret, **{"class": secret}),
        with_row(instances=f"[{secret}]", **{secret: secret}),
        with_row(instances="", selector=f"{{{secret}: {secret}, user.idkmesh.module: {secret}}}"),
        with_command(f"[{secret}, 5, {secret}]", timeoutSecs=secret),
        with_part("classes", f"{{{secret}: {{{secret}: 1}}}}"),
        with_part("platforms", f"{{lxd: {{url: {secret}, project: {secret}, cert: {secret}}}}}"),
        with_part("supervisor", f"{{lease: {{etcd: {{endpoints: [{secret}]}}, name: {secret}}}}}"),
        BASE + f"{secret}: *a\n{secret}: !!str b\n",
    ):
        for finding in findings(text):
            assert "tiger" not in str(finding)
            assert str(finding).isprintable()


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.sampled_from(["", "'", '"', "|\n    "]))
def test_any_text_is_judged(text: str, quote: str) -> None:
    """AR-2.1: whatever stands in a file, its findings have places within it."""
    whole = f"modules:\n  - {quote}{text}{quote}\n"
    for finding in findings(whole):
        assert 1 <= finding.line <= len(whole.splitlines()) + 1
        assert finding.column >= 1
        assert str(finding).isprintable()


# --- files -----------------------------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    """AR-2.1: 1 MiB is read; a file that is larger, no UTF-8, or not there is told in a line that names it."""
    file = tmp_path / "m.yaml"
    whole = BASE.encode().ljust(MAX_FILE_BYTES, b"\n")
    file.write_bytes(whole)
    assert read_declaration(file) == load_declaration(BASE, "")
    file.write_bytes(whole + b"\n")
    too_large = "is larger than 1,048,576 bytes; name a declaration of modules; a thousand take less [unreadable]"
    assert refusal(file) == f"{file}:1:1: {too_large}"
    file.write_bytes(b"a: b\n# \xfc")
    assert refusal(file) == f"{file}:2:3: byte 0xFC is no UTF-8; save the file as UTF-8 [unreadable]"
    file.unlink()
    assert refusal(file).startswith(f"{file}:1:1: cannot be read: No such file or directory; ")


def refusal(file: Path) -> str:
    """Return the one line that says why a file cannot be read."""
    with pytest.raises(DeclarationError) as caught:
        read_declaration(file)
    (line,) = caught.value.lines()
    return line


# --- time ------------------------------------------------------------------------------------------------------------


def seconds(text: str) -> float:
    """Return how long a text is judged."""
    return seconds_to_judge(load_declaration, DeclarationError, text)


HOSTILE: dict[str, Callable[[int], str]] = {
    "modules": lambda size: many(size // 180),
    "names twice": lambda size: HEAD + ROW * (size // len(ROW)),
    "one instance over and over": lambda size: with_row(instances=f"[{'a, ' * (size // 3)}]"),
    "unknown classes": lambda size: (
        HEAD
        + "".join(
            f"  - {{name: a{number}, kind: stateless, driver: lxd, instances: [a{number}], class: c{number}}}\n"
            for number in range(size // 70)
        )
    ),
    "a long program": lambda size: with_command(f"[{'/sh' * (size // 3)}]"),
    "a long URL": lambda size: with_part("platforms", f"{{lxd: {{url: 'https://{'a/@' * (size // 3)}'}}}}"),
    "classes": lambda size: with_part(
        "classes",
        "{"
        + ", ".join(f"c{number}: {{runtime: {{readiness: {{command: [sh]}}}}}}" for number in range(size // 50))
        + "}",
    ),
    "selectors": lambda size: with_row(
        instances="", selector="{" + ", ".join(f"a{n}: b" for n in range(size // 8)) + "}"
    ),
    "aliases": lambda size: HEAD + "  - *a\n" * (size // 7),
    "brackets": lambda size: HEAD + "  - " + "[" * size,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_time_is_in_proportion_to_the_text(text: Callable[[int], str]) -> None:
    """AR-2.1: four times the text takes no more than about four times as long, and a constant for suggestions."""
    small, large = seconds(text(60_000)), seconds(text(240_000))
    assert large < 10 * small + 0.3
