"""What holds between the parts of a declaration, which no schema says (AR-2.2, AR-2.5, AR-2.6, AR-3.1, AR-6.2).

Each is judged where all that it needs is right, and takes time in proportion to the declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from idkmesh.validation.findings import Rule, shown
from idkmesh.validation.yaml_nodes import Mapping, Sequence
from idkmesh.workloads.catalog import CATALOG
from idkmesh.workloads.model import DEFAULT_INTERVAL_S, DEFAULT_TTL_S, OWNER_KEY
from idkmesh.workloads.module_rules import MAX_IN_ALL

if TYPE_CHECKING:
    from idkmesh.validation.findings import Findings, Mark
    from idkmesh.validation.yaml_nodes import Node


@dataclass
class _Seen:
    """What the modules so far have named, each with where."""

    names: dict[str, str] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    platform_is_told: bool = False
    count: int = 0


def judge_relations(values: dict[str, Any], root: Node, findings: Findings) -> None:
    """Judge a whole declaration: ``values`` as the table gave them, ``root`` the node they came from."""
    _judge_lease(values.get("supervisor", {}), _at(root, "supervisor"), findings)
    classes = _known_classes(root)
    has_platform = isinstance(root, Mapping) and _has_lxd(root)
    nodes = _at(root, "modules")
    rows = zip(values.get("modules", ()), nodes.items if isinstance(nodes, Sequence) else (), strict=False)
    seen = _Seen(platform_is_told=has_platform)
    for number, (row, node) in enumerate(rows):
        if row is not None:
            findings.path = ["modules", number]
            _judge_name(row, node, seen, findings)
            _judge_class(row, node, classes, findings)
            _judge_platform(row, node, seen, findings)
            _judge_instances(row, node, seen, findings)
            _judge_count(row, node, seen, findings)
            _judge_selector(row, node, findings)
            _judge_port(row, node, findings)
    findings.path = []


def judge_module(row: dict[str, Any], node: Node, findings: Findings) -> None:
    """Judge what holds within one module, as far as it can be told without the rest of a declaration."""
    _judge_instances(row, node, _Seen(), findings)
    _judge_selector(row, node, findings)
    _judge_port(row, node, findings)


def _at(node: Node, key: str) -> Node:
    """Return a member's value, or the node itself where it has none."""
    return node.members[key].value if isinstance(node, Mapping) and key in node.members else node


def _judge_lease(supervisor: dict[str, Any], node: Node, findings: Findings) -> None:
    """Want a holder that may still act when the next pass begins: it stops a fifth before its lease ends (AR-6.2)."""
    lease_node = _at(node, "lease")
    ttl, interval = DEFAULT_TTL_S, DEFAULT_INTERVAL_S
    if isinstance(node, Mapping) and "interval_s" in node.members:
        interval = supervisor.get("interval_s", 0)  # a wrong one is not judged twice
    if lease_node is not node and isinstance(lease_node, Mapping) and "ttl_s" in lease_node.members:
        ttl = supervisor.get("lease", {}).get("ttl_s", 5 * interval)
    if ttl * 4 < interval * 5:
        what = f"a lease of {ttl} s may not be acted on after {ttl * 4 / 5:g} s, before the next pass at {interval} s"
        mend = f"write ttl_s: {-(-interval * 5 // 4)} or more under lease, or a shorter interval_s"
        mark = _at(node, "interval_s").mark
        findings.add(mark, Rule.LEASE_TIME, what, mend, ("supervisor", "interval_s"))


def _known_classes(root: Node) -> tuple[str, ...] | None:
    """Return the names of classes, None where those of the file cannot be read."""
    declared = _at(root, "classes")
    if declared is root:
        return tuple(CATALOG)
    return (*CATALOG, *declared.members) if isinstance(declared, Mapping) else None


def _has_lxd(root: Mapping) -> bool:
    """Say whether the platform is there, or is wrong in a way that is told already."""
    platforms = _at(root, "platforms")
    if platforms is root:
        return False
    return not isinstance(platforms, Mapping) or "lxd" in platforms.members


def _judge_name(row: dict[str, Any], node: Node, seen: _Seen, findings: Findings) -> None:
    if (name := row.get("name")) is None:
        return
    mark = _at(node, "name").mark
    if name in seen.names:
        what = f"the name {name} is there already{seen.names[name]}"
        findings.add(mark, Rule.DUPLICATE_NAME, what, "give each module a name of its own", (*findings.path, "name"))
    seen.names.setdefault(name, _where(mark))


def _judge_class(row: dict[str, Any], node: Node, classes: tuple[str, ...] | None, findings: Findings) -> None:
    name = row.get("class")
    if name is None or classes is None or name in classes:
        return
    what = f"the class {name} is neither in this file nor in the catalog"
    fit = [each for each in classes if shown(each)]  # one that is no name is told by its character alone
    mend = f"{findings.suggestion(name, fit)} (or declare it under classes)"
    mark = _at(node, "class").mark
    findings.add(mark, Rule.UNKNOWN_CLASS, what, mend, (*findings.path, "class"))


def _judge_platform(row: dict[str, Any], node: Node, seen: _Seen, findings: Findings) -> None:
    if row.get("driver") != "lxd" or seen.platform_is_told:
        return
    seen.platform_is_told = True  # once: one platform mends it for all
    mend = "add platforms: {lxd: {socket: /var/lib/lxd/unix.socket}}, or where it is here"
    mark = _at(node, "driver").mark
    findings.add(mark, Rule.PLATFORM, "how lxd is reached is not declared", mend, (*findings.path, "driver"))


def _judge_instances(row: dict[str, Any], node: Node, seen: _Seen, findings: Findings) -> None:
    place = _at(node, "instances")
    names = row.get("instances", ())
    for number, (name, item) in enumerate(zip(names, place.items if isinstance(place, Sequence) else (), strict=False)):
        if name is None:
            continue
        if name in seen.instances:
            what = f"the instance {name} is named already{seen.instances[name]}"
            mend = "keep one of them: an instance belongs to one module"
            findings.add(item.mark, Rule.INSTANCE_TWICE, what, mend, (*findings.path, "instances", number))
        else:
            by = f" by module {row['name']}" if "name" in row else ""
            seen.instances[name] = by + _where(item.mark)


def _judge_count(row: dict[str, Any], node: Node, seen: _Seen, findings: Findings) -> None:
    """Refuse more instances than one supervisor is to look at, once: where they become too many."""
    before = seen.count
    key = "replicas" if row.get("driver") == "process" else "instances"
    seen.count += (row.get("replicas") or 0) if key == "replicas" else len(row.get("instances") or ())
    if before <= MAX_IN_ALL < seen.count:
        what = f"with this module the file has {seen.count:,} instances and replicas, more than {MAX_IN_ALL:,}"
        mend = "give some modules a file of their own, for a supervisor with another lease.name"
        findings.add(_at(node, key).mark, Rule.RANGE, what, mend, (*findings.path, key))


def _judge_selector(row: dict[str, Any], node: Node, findings: Findings) -> None:
    """Refuse what would select instances only to report that they are not ours (AR-3.1)."""
    owner, name = row.get("selector", {}).get(OWNER_KEY), row.get("name")
    if owner is None or name is None or owner == name:
        return
    mark = _at(_at(node, "selector"), OWNER_KEY).mark
    what = f"selector has another module's name for {OWNER_KEY}, so none of its instances would be this module's"
    findings.add(mark, Rule.SELECTOR_OWNER, what, f"write {name}", (*findings.path, "selector", OWNER_KEY))


def _judge_port(row: dict[str, Any], node: Node, findings: Findings) -> None:
    """Refuse a port of several processes: they have one address, where one of them can listen (AR-8.5)."""
    if row.get("driver") != "process" or row.get("port") is None or row.get("replicas", 1) == 1:
        return
    mark = _at(node, "port").mark
    what = f"port with replicas: {row['replicas']}: all processes are at 127.0.0.1, where one can listen"
    mend = "write replicas: 1, or leave port out and let the readiness command ask by IDKMESH_INSTANCE"
    findings.add(mark, Rule.SHARED_PORT, what, mend, (*findings.path, "port"))


def _where(mark: Mark) -> str:
    return f", in line {mark.line}" if mark.line else ""
