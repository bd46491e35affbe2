"""Programs that are known to start slowly, and which image or variable tells of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.commands import name_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Starter:
    """A kind of program: seconds that a start takes on a shared half of a processor, without being ill."""

    name: str
    seconds: int
    images: frozenset[str]


_STARTERS: Final = tuple(
    Starter(name, seconds, frozenset(images.split()))
    for name, seconds, images in (
        ("GitLab", 300, "gitlab"),
        ("Oracle Database", 300, "oracle oracledb"),
        ("Atlassian's Java programs", 180, "jira confluence bitbucket"),
        ("SonarQube", 120, "sonarqube"),
        ("Jenkins", 120, "jenkins"),
        ("Nexus", 120, "nexus nexus3"),
        ("Cassandra", 120, "cassandra scylla"),
        ("Keycloak", 90, "keycloak"),
        ("Elasticsearch", 60, "elasticsearch opensearch"),
        ("Kibana", 60, "kibana"),
        ("Logstash", 60, "logstash"),
        ("Kafka", 60, "kafka"),
        ("Neo4j", 60, "neo4j"),
        ("Solr", 60, "solr"),
        ("SQL Server", 60, "mssql sqlserver"),
        ("MySQL, at its first start,", 45, "mysql mariadb percona"),
        ("a Java program", 60, "java jdk jre openjdk temurin corretto tomcat wildfly jboss spring springboot selenium"),
        (".NET", 40, "aspnet dotnet"),
    )
)
_JAVA: Final = next(starter for starter in _STARTERS if "java" in starter.images)
_DOTNET: Final = next(starter for starter in _STARTERS if "dotnet" in starter.images)
_HELPERS: Final = frozenset(
    {"exporter", "operator", "ui", "express", "proxy", "backup", "client", "tools", "sidecar", "agent", "commander"}
    | {"adapter", "init", "manager", "reloader", "config", "controller", "migrate", "migrations"}
)
_JAVA_VARIABLE: Final = re.compile(r"(?:.*_)?(?:JAVA_OPTS|JAVA_OPTIONS|JAVA_TOOL_OPTIONS|JVM_OPTS)|SPRING_[A-Z_]+")
_DOTNET_VARIABLE: Final = re.compile(r"(?:ASPNETCORE|DOTNET)_[A-Z_]+")


def image_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest: ``cassandra`` of ``gcr.io/a/cassandra:v14``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()


def slow_starter(image: str, variables: Iterable[str], program: str = "") -> Starter | None:
    """Return what an image, the names of its variables or its program is known as, or None.

    A helper beside a store (an exporter, an operator, a client) starts as fast as anything. Microsoft's images say what
    they are in the path, not in the last part of it.
    """
    parts = name_tokens(image_name(image))
    path = frozenset(image.partition("@")[0].rpartition(":")[0].lower().split("/"))
    if not parts & _HELPERS:
        for starter in _STARTERS:
            if (
                parts & starter.images
                or path & {"mssql", "aspnet"} & starter.images
                or path & {"selenium"} & starter.images
            ):
                return starter
    for name in variables:
        if _JAVA_VARIABLE.fullmatch(name):
            return _JAVA
        if _DOTNET_VARIABLE.fullmatch(name):
            return _DOTNET
    return {"java": _JAVA, "dotnet": _DOTNET}.get(program)
