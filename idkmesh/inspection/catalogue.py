"""The one table of rules. ``docs/reference/inspection.md`` is made of it; a test compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from idkmesh.inspection import (
    rules_commands,
    rules_compose,
    rules_end,
    rules_files,
    rules_form,
    rules_liveness,
    rules_matrix,
    rules_shape,
    rules_timing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.inspection.findings import Rule

FAMILIES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "Files": rules_files.RULES,
    "Kubernetes: what is asked": tuple(rule for rule, _ in rules_liveness.CONTAINER_CHECKS),
    "Kubernetes: figures": tuple(rule for rule, _ in rules_timing.CONTAINER_CHECKS),
    "Kubernetes: which probes": tuple(rule for rule, _ in rules_shape.CONTAINER_CHECKS),
    "Kubernetes: the end": tuple(rule for rule, _ in rules_end.CONTAINER_CHECKS),
    "Kubernetes: form": tuple(rule for rule, _ in rules_form.CONTAINER_CHECKS),
    "Compose": tuple(rule for rule, _ in rules_compose.SERVICE_CHECKS),
    "Commands, wherever they stand": tuple(rule for rule, _ in rules_commands.COMMAND_CHECKS),
    "Probe matrix": (
        rules_matrix.REFUSED,
        *(rule for rule, _ in rules_matrix.MATRIX_CHECKS),
        rules_matrix.NOT_IN_MATRIX,
        rules_matrix.OTHER_FIGURES,
    ),
}
"""The rules by what they are about."""

RULES: Final[Mapping[str, Rule]] = {rule.id: rule for family in FAMILIES.values() for rule in family}
"""The rules by id."""
