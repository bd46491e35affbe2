"""No credential of a file comes into any report, wherever it stands (HL-7.3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from idkmesh.cli import main
from idkmesh.control_tower.inspection_routes import probes_route
from idkmesh.httpd.responses import Response
from tests.inspection.support import BASE, whole

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.httpd.request import Request

SECRET = "Zq7open2sesame9"
LOWER = SECRET.lower()

COMMANDS = (
    f"sqlcmd -S localhost -U sa -P {SECRET} -Q 'SELECT 1'",
    f"mysqladmin ping -h localhost -uroot -p{SECRET}",
    f"mysql --password={SECRET} -e 'UPDATE beats SET a=1'",
    f"mariadb-admin ping -h orders-db -p{SECRET}",
    f"redis-cli -a {SECRET} ping",
    f"redis-cli -u redis://:{SECRET}@cache:6379 ping",
    f"redis-cli --pass {SECRET} set a {SECRET}",
    f"valkey-cli -a {SECRET} -h cache ping",
    f"PGPASSWORD={SECRET} psql -U app -c 'SELECT 1'",
    f"psql postgresql://app:{SECRET}@orders-db/app",
    f"psql postgresql://app:a/{SECRET}@x@orders-db/app",
    f"psql -c \"INSERT INTO beats VALUES ('{SECRET}')\"",
    f"pg_isready -d postgresql://app:{SECRET}@orders-db/app",
    f"mongosh --host mongodb://app:{SECRET}@db/app --eval 1",
    f"mongosh -u app -p {SECRET} --eval 1",
    f"cqlsh -u app -p {SECRET} localhost",
    f"curl http://u:{SECRET}@localhost/x",
    f"curl u:{SECRET}@localhost:8080/x",
    f"curl u:{SECRET}@orders-db:8080/x",
    f"curl http://localhost/health?token={SECRET}",
    f"curl -H 'Authorization: Bearer {SECRET}' http://localhost/x",
    f"curl -H 'X-Api-Key: {SECRET}' http://orders/x",
    f"curl --oauth2-bearer {SECRET} http://localhost/x",
    f"curl --oauth2-bearer {SECRET} orders/x",
    f"curl -v --user app:{SECRET} http://localhost/x",
    f"curl -X POST --data={SECRET} http://localhost/x",
    f"curl --data-raw={SECRET} http://localhost/actuator/health",
    f"curl http://u:{SECRET}@localhost/actuator/health",
    f"wget -q --post-data={SECRET} http://localhost/x",
    f"wget -q --http-password={SECRET} http://localhost/x",
    f"wget --header 'Authorization: Basic {SECRET}' http://localhost/x",
    f"nc -z u:{SECRET}@db 5432",
    f"etcdctl --user root:{SECRET} --endpoints http://u:{SECRET}@etcd:2379 endpoint health",
    f"python check_db.py --password={SECRET}",
    f"python -c 'import db; db.connect(\"postgres://app:{SECRET}@db\")'",
    f"python db-ready-{SECRET}",
    f"node ready.js postgres://app:{SECRET}@db",
    f"rabbitmqctl authenticate_user app {SECRET}",
    f"check --token {SECRET} | tee log",
    f"tail /var/log/{SECRET}.log",
    f"grpc_health_probe -rpc-header=a:{SECRET}",
    f"grpc_health_probe -addr=localhost:1 -rpc-header=authorization:{SECRET}",
    f"celery -b amqp://app:{SECRET}@rabbitmq inspect ping",
    f"check --password={SECRET}$HOST || exit 1",
    f"check postgres://app:{SECRET}@$DB_HOST",
    f"manage.py migrate --token={SECRET}",
)
WORDS = [line.replace("'", "").replace('"', "").split() for line in COMMANDS]
FORMS: list[Any] = [
    form
    for line, words in zip(COMMANDS, WORDS, strict=True)
    for form in (["sh", "-c", line], words, [line], ["sh", "-c", f"{line} || exit 1"], ["sh", "-c", f"{line} 'unended"])
]


def container(probe: dict[str, Any], **more: Any) -> str:
    spec = {f"{which}Probe": probe for which in ("startup", "liveness", "readiness")} | more
    return whole("container", "".join(f"{key}: {json.dumps(value)}\n" for key, value in spec.items()))


def services(test: Any) -> str:
    check = {"test": test, "interval": "1s"}
    labels = {"autoheal": "true", "key": SECRET}
    app = {"image": "redis:7", "environment": [f"REDIS_PASSWORD={SECRET}"], "healthcheck": check, "labels": labels}
    other = {
        "image": "registry.example/a:1",
        "environment": {"REDIS_URL": f"redis://:{SECRET}@r"},
        "depends_on": {"app": {"condition": "service_healthy"}},
        "command": f"serve --token {SECRET}",
    }
    return whole("services", f"app: {json.dumps(app)}\nother: {json.dumps(other)}\n")


def matrix(probe: dict[str, Any], **more: Any) -> str:
    row = {"name": "a", "critical": True, "timeout_ms": 500, "interval_ms": 2000, "cache_ms": 5000, "probe": probe}
    return whole("matrix", f"dependencies: {json.dumps([row | more])}\n")


URL = f"http://app:{SECRET}@orders-db/ready?token={SECRET}"
TEXTS = [
    *(container({"exec": {"command": form}}) for form in FORMS),
    *(services(["CMD", *form]) for form in FORMS),
    *(services(form) for form in FORMS),
    *(services(["CMD-SHELL", line]) for line in COMMANDS),
    *(services(line) for line in COMMANDS),
    *(matrix({"command": {"argv": form}}) for form in FORMS),
    *(
        container(
            {"httpGet": {"path": path, "port": 8080, "httpHeaders": [{"name": "Authorization", "value": SECRET}]}}
        )
        for path in (f"/ready?token={SECRET}", f"/db/migrate?token={SECRET}", URL, f"/actuator/health?key={SECRET}")
    ),
    container({"httpGet": {"path": "/", "host": f"app:{SECRET}@orders-db"}, "periodSeconds": SECRET}),
    container({"tcpSocket": {"port": f"http {SECRET}"}, "timeoutSeconds": f"'{SECRET}'"}),
    container({"grpc": {"port": f"u:{SECRET}", "service": f"db?{SECRET}"}}),
    container(
        {"httpGet": {"path": "/"}},
        env=[{"name": "REDIS_URL", "value": f"redis://app:{SECRET}@r/1"}, {"name": "DB_PASSWORD", "value": SECRET}],
        command=["gunicorn", "--graceful-timeout", "90", f"--token={SECRET}"],
        lifecycle={"preStop": {"exec": {"command": ["sh", "-c", f"curl -u a:{SECRET} x; sleep 40"]}}},
    ),
    whole("pod", "containers: []\n").replace("{name: cart}", f"{{name: cart, annotations: {{a: {SECRET}}}}}"),
    f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{password: *{SECRET}}}\n",
    f"services:\n  a: {{environment: {{PASSWORD: !{SECRET}!x y}}}}\n",
    f"services:\n  a: {{environment: {{PASSWORD: %{SECRET}, B: [&{SECRET} {{a: *{SECRET}}}]}}}}\n",
    f"password: {SECRET}\n",
    f"kind: idkmesh-probe-matrix\npassword: *{SECRET}\n",
    *(matrix({"http": {"url": URL}}, **more) for more in ({}, {"timeout_ms": SECRET}, {"refresh": SECRET + " x"})),
    matrix({"http": {"url": "http://orders/x", "headers": {"Authorization": f"Bearer {SECRET}"}}}),
    matrix({"tcp": {"host": f"app:{SECRET}@orders-db", "port": 5432}}),
    matrix({"grpc": {"target": f"app:{SECRET}@orders:50051"}}),
    matrix({"dns": {"name": f"app:{SECRET}@orders"}}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with each text as a file, and the matrix that manifests are held against."""
    there = tmp_path_factory.mktemp("planted")
    for number, text in enumerate(TEXTS):
        assert SECRET in text
        (there / f"{number}.yaml").write_text(text, encoding="utf-8")
    (there / "matrix.yaml").write_text(BASE, encoding="utf-8")
    return there


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_no_report_repeats_a_credential(
    output: str,
    beside: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """HL-7.3: planted in every position of manifest, Compose file and matrix, it is in none of the three formats."""
    monkeypatch.chdir(folder)
    flags = ["--matrix", "matrix.yaml"] if beside else []
    for number, text in enumerate(TEXTS):
        main(["inspect", "--format", output, *flags, f"{number}.yaml"])
        told = capsys.readouterr()
        assert LOWER not in (told.out + told.err).lower(), text


def test_nor_does_the_control_tower() -> None:
    """HL-7.3, CT-6.4: nor is it in an answer of POST /api/v1/inspect/probes."""
    for text in TEXTS:
        answer = probes_route().endpoint(cast("Request", None), text.encode())
        assert isinstance(answer, Response)
        assert answer.status == 200
        assert LOWER not in bytes(answer.body).decode().lower(), text


def test_the_rules_still_speak_of_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-7.3: what is seen is told all the same, by names."""
    main(["inspect", "--format", "json", *map(str, sorted(folder.glob("[0-9]*.yaml")))])
    told = {(each["rule"], each["reason"]) for each in json.loads(capsys.readouterr().out)["findings"]}
    assert ("PB303", "sqlcmd -S ... -U ... -P ... -Q ... is one plain command.") in told
    assert ("PB305", "redis-cli is given one by -a.") in told
    assert ("PB310", "It is PGPASSWORD=... psql -U ... -c ....") in told
    assert ("PB308", "curl http://localhost/....") in told
    assert {"PB301", "PB302", "PB304", "PB306", "PB309", "PB209", "PB103", "PB101"} <= {rule for rule, _ in told}
