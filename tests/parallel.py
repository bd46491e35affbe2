"""How the suite is spread over processes: which files stay together, and which begin first.

A file stays in one process, with what its fixtures start. Files of one row do too, so that they share what is dear: a
browser. Rows begin in this order, longest first, and everything else follows, so that no long file is the tail.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadFileScheduling

ROWS: Final = (
    # The longest of those that run alone.
    ("tests/rehearsal/test_real.py",),
    ("tests/rehearsal/test_serving.py",),
    ("tests/ui/test_workloads.py",),
    # One LXD at a time: its daemon, its bridge and its images are the machine's.
    ("tests/functional/test_lxd.py", "tests/functional/test_lxd_supervise.py", "tests/contract/test_drivers.py"),
    ("tests/functional/test_supervise.py",),
    ("tests/functional/test_demo.py",),
    ("tests/inspection/test_credentials.py",),
    # Three browsers: with one, its files alone would take as long as all others in three processes.
    ("tests/ui/test_dependencies.py", "tests/ui/test_looks.py", "tests/ui/test_topology.py"),
    ("tests/ui/test_site.py", "tests/test_site.py"),
    ("tests/ui/",),
    ("tests/test_cli.py",),
    ("tests/test_howto.py",),
    ("tests/functional/test_tutorial.py",),
    ("tests/adapter/test_adapter.py",),
    ("tests/events/test_command.py",),
    ("tests/dropin/test_programs.py",),
    ("tests/health/test_matrix_file.py",),
    ("tests/functional/test_router.py",),
    ("tests/functional/test_router_secrets.py",),
    ("tests/functional/test_readiness_adapter.py",),
    ("tests/health/test_fault_table.py",),
    ("tests/rehearsal/test_parts.py",),
    ("tests/events/test_processes.py",),
    ("tests/functional/test_node.py",),
    ("tests/inspection/test_documents.py",),
    ("tests/httpd/test_differential.py",),
    ("tests/functional/test_lease_faults.py",),
    ("tests/test_soak.py",),
    ("tests/test_bench.py",),
    ("tests/topology/test_etcd.py",),
    ("tests/test_console.py",),
    ("tests/workloads/test_process_driver.py",),
    ("tests/functional/test_streams.py",),
    ("tests/functional/test_slow_clients.py",),
    ("tests/httpd/test_head_reader.py",),
    ("tests/contract/test_topology_providers.py",),
    ("tests/test_documents.py",),
    ("tests/dropin/test_same_attributes.py",),
    ("tests/contract/test_lease_stores.py",),
    ("tests/health/test_run_probes.py",),
    ("tests/health/test_rounds.py",),
    ("tests/events/test_damage.py",),
    ("tests/functional/test_endings.py",),
    ("tests/workloads/test_two_supervisors.py",),
    ("tests/functional/test_resources.py",),
    ("tests/topology/test_nacos.py",),
    ("tests/topology/test_file.py",),
)


def row_of(nodeid: str) -> int:
    """Return the number of the row that a test belongs to; one beyond the last for a test of no row."""
    return next((number for number, row in enumerate(ROWS) if nodeid.startswith(row)), len(ROWS))


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # the package has no types
    """Hands out files, or rows of them."""

    def _split_scope(self, nodeid: str) -> str:
        number = row_of(nodeid)
        return " ".join(ROWS[number]) if number < len(ROWS) else super()._split_scope(nodeid)
