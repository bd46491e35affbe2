"""Each rule on Kubernetes manifests: what meets it, and where; and what comes near and does not."""

from __future__ import annotations

import pytest

from tests.inspection.support import MARK, ids, inspected

LIVE = "livenessProbe: {httpGet: {path: /livez, port: 8080}, "
READY = "readinessProbe: {httpGet: {path: /readyz, port: 8080}, "

MET = [
    ("PB004", "container", "image: a\n§image: b\n"),
    ("PB101", "container", "readinessProbe: {grpc: {port: 8080}}\n§livenessProbe: {grpc: {port: 8080}}\n"),
    (
        "PB101",
        "container",
        ("readinessProbe: {exec: {command: [/check, -x]}}\n"
         "§livenessProbe: {exec: {command: [sh, -c, '/check -x']}}\n"),
    ),
    (
        "PB101",
        "container",
        ("readinessProbe: {httpGet: {path: '/health?a=1', port: 8080}}\n"
         "§livenessProbe: {httpGet: {path: /HEALTH, port: http}}\n"),
    ),
    ("PB102", "container", (
        f"readinessProbe: {{grpc: {{port: 1}}}}\n"
        f"§{LIVE[:15]}{{grpc: {{port: 1}}, failureThreshold: 6}}\n"
    )),
    ("PB103", "container", "livenessProbe:\n  httpGet: {port: 8080, §path: /health/redis}\n"),
    ("PB103", "container", "livenessProbe:\n  httpGet: {port: 8080, §path: /actuator/health/readiness}\n"),
    ("PB103", "container", "livenessProbe:\n  grpc: {port: 8080, §service: cart.dependencies}\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [sh, -c, 'redis-cli -h $REDIS_HOST ping']\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [nc, -z, kafka-0, '9092']\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [curl, -f, 'http://orders/livez']\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [sh, -c, '[ $(redis-cli -h redis ping) = P ]']\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [celery, -A, app, inspect, ping]\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [/app/check-db.sh]\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [python, /app/ping_postgres.py]\n"),
    ("PB103", "container", "livenessProbe:\n  exec:\n    §command: [psql, 'postgres://u@orders-db/x', -c, SELECT 1]\n"),
    ("PB104", "container", "livenessProbe:\n  httpGet: {port: 8080, §path: /shop/actuator/health/}\n"),
    ("PB104", "container", "livenessProbe:\n  exec:\n    §command: [rabbitmqctl, cluster_status]\n"),
    ("PB105", "container", "startupProbe:\n  tcpSocket: {port: 8080, §host: db.example}\n"),
    ("PB106", "container", "readinessProbe:\n  httpGet: {port: 8080, §host: other.example}\n"),
    ("PB106", "container", "livenessProbe:\n  tcpSocket: {port: 8080, §host: localhost}\n"),
    ("PB107", "container", "startupProbe:\n  exec: {§command: [pg_isready, -h, orders-db]}\n"),
    ("PB108", "container", "livenessProbe:\n  §tcpSocket: {port: 8080}\n"),
    ("PB110", "container", "startupProbe:\n  grpc: {port: 8080}\n  §successThreshold: 2\n"),
    ("PB111", "container", "readinessProbe:\n  grpc: {port: 8080}\n  §timeoutSeconds: 10\n"),
    ("PB112", "container", "readinessProbe:\n  grpc: {port: 8080}\n  §failureThreshold: 1\n"),
    ("PB113", "container", f"§{LIVE}periodSeconds: 9}}\n{READY}}}\n"),
    ("PB113", "container", (
        "livenessProbe:\n  grpc: {port: 1}\n  §timeoutSeconds: 1\n"
        "readinessProbe: {grpc: {port: 2}, timeoutSeconds: 3}\n"
    )),
    ("PB109", "container", "livenessProbe:\n  httpGet: {port: 8080, §path: '/db/migrate/?now=1'}\n"),
    ("PB114", "container", f"§{LIVE}periodSeconds: 9, failureThreshold: 1}}\n"),
    ("PB114", "container", f"§{LIVE}periodSeconds: 60, failureThreshold: 1}}\n"),
    ("PB114", "container", f"§{LIVE}periodSeconds: 8, failureThreshold: 2}}\n"),
    ("PB132", "container", "§command: [sh, -c, 'exec hypercorn --graceful-timeout=31 a:b']\n"),
    ("PB132", "container", "lifecycle: {preStop: {sleep: {seconds: 9}}}\n§args: [--timeout-graceful-shutdown, '25']\n"),
    ("PB132", "container", "env:\n- {name: §GUNICORN_CMD_ARGS, value: '-w 2 --graceful-timeout 45'}\n"),
    ("PB132", "container", "env:\n- {name: §SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE, value: 1m}\n"),
    ("PB134", "container", f"{READY}§successTreshold: 2}}\n"),
    ("PB134", "container", "readinessProbe:\n  httpGet: {path: /, port: 1, §periodSeconds: 5}\n"),
    ("PB134", "container", "readinessProbe:\n  exec: {§args: [a], command: [b]}\n"),
    ("PB135", "container", f"{READY}§periodSeconds: '10'}}\n"),
    ("PB135", "container", f"{READY}§timeoutSeconds: -1}}\n"),
    ("PB135", "container", f"{READY}§failureThreshold: [3]}}\n"),
    ("PB136", "container", "readinessProbe:\n  §tcpSocket: {}\n"),
    ("PB136", "container", "readinessProbe: {exec: {§command: []}}\n"),
    ("PB309", "container", "readinessProbe:\n  exec:\n    §command: [curl, -f, localhost, '||', exit, '1']\n"),
    ("PB309", "container", "readinessProbe:\n  exec:\n    §command: [pg_isready, -U, $PGUSER]\n"),
    ("PB309", "container", "readinessProbe:\n  exec:\n    §command: [redis-cli, '--pass=${REDIS_PASSWORD}', ping]\n"),
    ("PB115", "container", f"image: docker.io/library/cassandra:4\n§{LIVE}initialDelaySeconds: 60}}\n"),
    ("PB115", "container", f"image: mcr.microsoft.com/dotnet/aspnet:8.0\n§{LIVE}}}\n"),
    ("PB115", "container", f"command: [java, -jar, /app.jar]\n§{LIVE}}}\n"),
    ("PB116", "container", "image: elasticsearch@sha256:00\n§startupProbe: {grpc: {port: 1}}\n"),
    ("PB117", "container", f"{READY}§initialDelaySeconds: 60}}\n"),
    ("PB122", "container", "livenessProbe:\n  tcpSocket: {§port: grpc}\n"),
    ("PB123", "container", "livenessProbe:\n  grpc: {§port: 9000}\n"),
    ("PB124", "container", "livenessProbe:\n  grpc: {§port: nine}\n"),
    ("PB125", "container", "§livenessProbe: {periodSeconds: 10}\n"),
    ("PB128", "container", "readinessProbe:\n  grpc: {port: 8080}\n  §terminationGracePeriodSeconds: 5\n"),
    ("PB129", "container", "livenessProbe:\n  §exec: {command: [sh, -c, 'exec /bin/grpc_health_probe -addr=:8080']}\n"),
    ("PB121", "pod", "containers:\n- §name: a\n"),
    ("PB126", "pod", "initContainers:\n- name: a\n  §startupProbe: {grpc: {port: 1}}\ncontainers: []\n"),
    ("PB130", "pod", "containers:\n- name: a\n  lifecycle:\n    §preStop: {exec: {command: [sleep, '30']}}\n"),
    ("PB130", "pod", (
        "terminationGracePeriodSeconds: 5\ncontainers:\n- lifecycle:\n"
        "    §preStop: {sleep: {seconds: 10}}\n"
    )),
    ("PB131", "pod", "containers:\n- lifecycle:\n    §preStop: {exec: {command: [sh, -c, '/drain; sleep 21s']}}\n"),
    (
        "PB127",
        "file",
        (
            "apiVersion: batch/v1\nkind: Job\n"
            "spec: {template: {spec: {containers: [{§livenessProbe: {grpc: {port: 1}}}]}}}\n"
        ),
    ),
]  # fmt: skip

NEAR = [
    ("PB004", "container", "env: [{name: a, value: b}, {name: a, value: c}]\n"),
    ("PB101", "container", (
        "readinessProbe: {grpc: {port: 1, service: ready}}\n"
        "livenessProbe: {grpc: {port: 1, service: live}}\n"
    )),
    ("PB101", "container", f"{LIVE}}}\nreadinessProbe: {{httpGet: {{path: /livez, port: 8081}}}}\n"),
    ("PB101", "container", "livenessProbe: {}\nreadinessProbe: {}\n"),
    ("PB101", "container", (
        "readinessProbe: {grpc: {port: 1}}\n"
        "livenessProbe: {grpc: {port: 1}, failureThreshold: 6}\n"
    )),
    ("PB102", "container", (
        "readinessProbe: {grpc: {port: 1}}\n"
        "livenessProbe: {grpc: {port: 1}, failureThreshold: 5}\n"
    )),
    ("PB103", "container", "livenessProbe: {httpGet: {path: /alreadystarted, port: 8080}}\n"),
    ("PB103", "container", "readinessProbe: {httpGet: {path: /health/db, port: 8080}}\n"),
    ("PB103", "container", "image: bitnami/redis:7\nlivenessProbe: {exec: {command: [/health/redis-ping.sh]}}\n"),
    ("PB103", "container", "image: postgres:17\nlivenessProbe: {exec: {command: [pg_isready, -d, orders-db]}}\n"),
    ("PB103", "container", "livenessProbe: {exec: {command: [sh, -c, 'redis-cli -h $(hostname) ping']}}\n"),
    ("PB103", "container", "livenessProbe: {exec: {command: [sh, -c, 'redis-cli -h $POD_IP ping']}}\n"),
    ("PB103", "container", "livenessProbe: {exec: {command: [nodetool, status]}}\n"),
    ("PB103", "container", "livenessProbe: {exec: {command: [curl, -o, /dev/null, 'http://127.0.0.1:8080/livez']}}\n"),
    ("PB103", "container", "livenessProbe: {exec: {command: [curl, -H, 'Host: db', 'localhost/livez']}}\n"),
    ("PB103", "container", "livenessProbe: {exec: {command: [curl, --unix-socket, /run/db.sock, 'http://db/x']}}\n"),
    ("PB104", "container", "readinessProbe: {httpGet: {path: /actuator/health, port: 8080}}\n"),
    ("PB105", "container", "livenessProbe: {tcpSocket: {port: 8080, host: 127.0.0.1}}\n"),
    ("PB107", "container", "startupProbe: {httpGet: {path: /readyz, port: 8080}}\n"),
    ("PB108", "container", "startupProbe: {tcpSocket: {port: 8080}}\n"),
    ("PB110", "container", "livenessProbe: {grpc: {port: 8080}, successThreshold: 0}\n"),
    ("PB111", "container", "readinessProbe: {grpc: {port: 8080}, periodSeconds: 1}\n"),
    ("PB112", "container", "readinessProbe: {grpc: {port: 8080}, failureThreshold: 1, periodSeconds: 11}\n"),
    ("PB113", "container", f"{LIVE}timeoutSeconds: 2}}\n{READY}timeoutSeconds: 2}}\n"),
    ("PB114", "container", f"{LIVE}periodSeconds: 9, failureThreshold: 2}}\n"),
    ("PB114", "container", f"{LIVE}periodSeconds: 60, failureThreshold: 1, timeoutSeconds: 10}}\n"),
    ("PB109", "container", "readinessProbe: {httpGet: {path: /migrate/status, port: 8080}}\n"),
    ("PB109", "container", "readinessProbe: {httpGet: {path: /restart-service/readyz, port: 8080}}\n"),
    ("PB132", "container", "args: [--graceful-timeout, '30']\n"),
    ("PB132", "container", "env: [{name: IDKMESH_DRAIN_TIMEOUT, valueFrom: {fieldRef: {fieldPath: a}}}]\n"),
    ("PB132", "container", "args: [--drain-timeout, '60']\nlifecycle: {preStop: {sleep: {seconds: 30}}}\n"),
    ("PB134", "container", "livenessProbe: {<<: {periodSeconds: 5}, grpc: {port: 1, service: a}}\n"),
    ("PB135", "container", f"{LIVE}periodSeconds: ${{PERIOD}}, timeoutSeconds: , failureThreshold: 0}}\n"),
    ("PB137", "container", f"{READY}}}\n"),
    ("PB309", "container", "readinessProbe: {exec: {command: [sh, -c, 'a || exit 1']}}\n"),
    ("PB309", "container", "readinessProbe: {exec: {command: [pg_isready, -U, $(PGUSER)]}}\n"),
    ("PB309", "container", "readinessProbe: {exec: {command: [awk, '$1 > 2', /a]}}\n"),
    ("PB309", "container", "readinessProbe: {exec: {command: [find, /a, -exec, test, -f, x, ;]}}\n"),
    ("PB310", "container", "readinessProbe: {exec: {command: [sh, -c, 'a b']}}\n"),
    ("PB115", "container", f"image: a/redis-exporter:1\n{LIVE}}}\n"),
    ("PB115", "container", f"image: a/cassandra-exporter:1\n{LIVE}}}\n"),
    ("PB115", "container", f"image: cassandra:4\n{READY}}}\n"),
    ("PB115", "container", f"image: mysql:8\n{LIVE}initialDelaySeconds: 15}}\n"),
    ("PB116", "container", "image: elasticsearch:8\nstartupProbe: {grpc: {port: 1}, failureThreshold: 6}\n"),
    ("PB117", "container", f"startupProbe: {{grpc: {{port: 1}}}}\n{READY}initialDelaySeconds: 60}}\n"),
    ("PB121", "container", READY + "}\n"),
    ("PB121", "pod", "containers:\n- name: a\n  readinessProbe: {grpc: {port: 1}}\n- name: sidecar\n"),
    ("PB121", "file", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: once}]}\n"),
    ("PB122", "container", "livenessProbe: {tcpSocket: {port: '8080'}}\n"),
    ("PB123", "pod", "containers:\n- livenessProbe: {tcpSocket: {port: 9000}}\n"),
    ("PB127", "file", "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [{name: a}]}}}\n"),
    ("PB130", "pod", "containers:\n- lifecycle: {preStop: {exec: {command: [sh, -c, 'nodetool drain']}}}\n"),
    ("PB130", "pod", "containers:\n- lifecycle: {preStop: {exec: {command: [sleep, '29']}}}\n"),
    ("PB131", "pod", "containers:\n- lifecycle: {preStop: {exec: {command: [sleep, '20']}}}\n"),
    ("PB131", "pod", (
        "terminationGracePeriodSeconds: 15\ncontainers:\n"
        "- lifecycle: {preStop: {sleep: {seconds: 10}}}\n"
    )),
]  # fmt: skip


@pytest.mark.parametrize(("rule_id", "part", "text"), MET)
def test_met(rule_id: str, part: str, text: str) -> None:
    """HL-7.3: the rule is met once, where the text is marked."""
    findings, place = inspected(part, text)
    assert [finding.place for finding in findings if finding.rule.id == rule_id] == [place]


@pytest.mark.parametrize(("rule_id", "part", "text"), NEAR)
def test_near_miss(rule_id: str, part: str, text: str) -> None:
    """HL-7.2: what is right, or cannot be told, is no finding."""
    assert MARK not in text
    assert rule_id not in ids(inspected(part, text)[0])


SERVICE = """\
apiVersion: v1
kind: Service
metadata: {{name: cart}}
spec: {{selector: {{{selector}}}, ports: [{{port: 80, targetPort: {target}}}]{more}}}
---
"""
TWO = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart}
spec:
  template:
    metadata: {labels: {app: cart, tier: web}}
    spec:
      containers:
      - {name: server, ports: [{name: http, containerPort: 8080}]}
      - {name: metrics, ports: [{containerPort: 9090}]}
"""


@pytest.mark.parametrize(
    ("selector", "target", "more", "objects"),
    [
        ("app: cart", "8080", "", ["Deployment/cart, container server"]),
        ("app: cart", "http", "", ["Deployment/cart, container server"]),
        ("app: cart", "9090", "", ["Deployment/cart, container metrics"]),
        ("app: cart, tier: db", "8080", "", []),
        ("", "8080", "", []),
        ("app: cart", "7000", "", []),
        ("app: cart", "8080", ", publishNotReadyAddresses: true", []),
    ],
)
def test_container_behind_a_service(selector: str, target: str, more: str, objects: list[str]) -> None:
    """PB120: the container that gets the traffic needs readiness, and no other."""
    findings, _ = inspected("file", SERVICE.format(selector=selector, target=target, more=more) + TWO)
    assert [finding.object for finding in findings if finding.rule.id == "PB120"] == objects


def test_only_container_gets_the_traffic_without_declaring_its_port() -> None:
    """PB120: ports need not be declared; another namespace is another Service."""
    one = TWO.replace("ports: [{name: http, containerPort: 8080}]", "").replace(
        "      - {name: metrics, ports: [{containerPort: 9090}]}\n", ""
    )
    service = SERVICE.format(selector="app: cart", target="8080", more="")
    assert "PB120" in ids(inspected("file", service + one)[0])
    elsewhere = service.replace("{name: cart}", "{name: cart, namespace: a}")
    assert "PB120" not in ids(
        inspected("file", elsewhere + one.replace("{name: cart}", "{name: cart, namespace: b}"))[0]
    )


def test_every_kind_of_workload() -> None:
    """HL-7.1: a pod is found wherever its kind keeps it, in a List too; Knative's Service is no Service."""
    bad = "{containers: [{name: a, livenessProbe: {}}]}"
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"):
        text = f"apiVersion: x\nkind: {kind}\nspec: {{template: {{spec: {bad}}}}}\n"
        assert "PB125" in ids(inspected("file", text)[0]), kind
    cron = f"apiVersion: x\nkind: CronJob\nspec: {{jobTemplate: {{spec: {{template: {{spec: {bad}}}}}}}}}\n"
    listed = (
        f"apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {bad}}}\n"
    )
    assert "PB125" in ids(inspected("file", cron)[0])
    findings, _ = inspected("file", listed)
    assert [(each.rule.id, each.object) for each in findings] == [("PB125", "Pod/p, container a")]
    knative = (
        f"apiVersion: serving.knative.dev/v1\nkind: Service\n"
        f"spec: {{selector: {{app: cart}}, template: {{spec: {bad}}}}}\n"
    )
    assert ids(inspected("file", knative)[0]) == set()


def test_sidecar_among_the_init_containers() -> None:
    """PB126: one that goes on is judged as any container."""
    text = "initContainers:\n- {name: a, restartPolicy: Always, livenessProbe: {}}\ncontainers: []\n"
    findings, _ = inspected("pod", text)
    assert [(each.rule.id, each.object) for each in findings] == [("PB125", "Deployment/cart, container a")]


def test_what_is_the_pods_is_told_once() -> None:
    """PB133, PB137: however many containers it has."""
    text = (
        "terminationGracePeriodSeconds: 0\nlivenessProbe: {grpc: {port: 1}}\n"
        "containers: [{name: a, image: a}, {name: b, image: b}]\n"
    )
    found = [each.rule.id for each in inspected("pod", text)[0]]
    assert (found.count("PB133"), found.count("PB137")) == (1, 1)


@pytest.mark.parametrize(
    ("probe", "told"),
    [("grpc: {port: 1}", "service name"), ("tcpSocket: {port: 1}", "protocol"), ("exec: {command: [/a]}", "run"),
     ("httpGet: {path: /, port: 1}", "/livez")],
)  # fmt: skip
def test_the_mend_fits_the_kind_of_probe(probe: str, told: str) -> None:
    """PB101: a probe without a path is not told to use another path."""
    findings, _ = inspected("container", f"readinessProbe: {{{probe}}}\nlivenessProbe: {{{probe}}}\n")
    (mend,) = [finding.mend for finding in findings if finding.rule.id == "PB101"]
    assert told in mend
    assert ("/livez" in mend) is ("httpGet" in probe)


def test_joined_options_hide_no_host() -> None:
    """PB103: `-so FILE` is two options, and the word after the file is the URL."""
    text = "livenessProbe: {exec: {command: [curl, -fso, /dev/null, 'http://orders/livez']}}\n"
    (finding,) = [each for each in inspected("container", text)[0] if each.rule.id == "PB103"]
    assert finding.reason == "curl asks orders."


def test_readiness_by_its_name_is_called_so() -> None:
    """PB103: a path that says ready names no dependency."""
    findings, _ = inspected("container", "livenessProbe: {httpGet: {path: /healthz/ready, port: 8080}}\n")
    assert [each.reason for each in findings if each.rule.id == "PB103"] == ["/healthz/ready is readiness by its name."]


def test_when_liveness_acts_is_a_span() -> None:
    """PB115: the kubelet's ticks begin with the pod, so the first run after the delay comes within one period."""
    text = "image: 'cassandra:4'\nlivenessProbe: {grpc: {port: 1}, initialDelaySeconds: 15}\n"
    (finding,) = [each for each in inspected("container", text)[0] if each.rule.id == "PB115"]
    assert "35 to 45 s after its start" in finding.reason


@pytest.mark.parametrize(
    ("key", "mend"),
    [
        ("periodSecond", "Did you mean periodSeconds?"),
        ("failureTreshold", "Did you mean failureThreshold?"),
        ("periodseconds", "Write periodSeconds."),
        ("sucessThreshold", "Did you mean successThreshold?"),
        ("nothingLikeIt", "Write the key as Kubernetes calls it, at its place."),
    ],
)
def test_a_key_that_is_nearly_right(key: str, mend: str) -> None:
    """PB134: a slip of the pen is told with the key that was meant."""
    findings, _ = inspected("container", f"readinessProbe:\n  httpGet: {{path: /, port: 8080}}\n  {key}: 5\n")
    assert [each.mend for each in findings if each.rule.id == "PB134"] == [mend]
