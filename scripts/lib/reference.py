"""Writes the pages of ``docs/reference/`` that are made from tables in the code. A test compares them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.httpd.head_faults import FAULTS
from idkmesh.inspection.catalogue import FAMILIES, RULES
from idkmesh.workloads.catalog import CATALOG
from scripts.lib.api_page import api_page
from scripts.lib.matrix_page import matrix_page
from scripts.lib.metrics_page import metrics_page
from scripts.lib.schemas_page import schemas_page
from scripts.lib.settings_page import paragraph, settings_page

if TYPE_CHECKING:
    from idkmesh.httpd.errors import ErrorCode
    from idkmesh.inspection.findings import Rule
    from idkmesh.workloads.catalog import CatalogEntry

EXAMPLE_PARTS = {
    "file": "A file, before",
    "pod": "In a pod's spec, before",
    "container": "In a container, before",
    "services": "Under `services`, before",
    "matrix": "In a matrix, before",
}
DIRECTORY = Path(__file__).parents[2] / "docs" / "reference"


def error_section(row: ErrorCode) -> str:
    """Return the section about one code."""
    retry = row.again or ("The same request may succeed later." if row.retryable else "The same request fails again.")
    return f"""## {row.code}

{paragraph(f"Status {row.status}. {row.meaning}")}

{paragraph(f"What to do: {row.remedy} {retry}")}
"""


def errors_page() -> str:
    """Return ``errors.md``, from the table of error codes."""
    sections = "\n".join(error_section(row) for row in ERROR_CODES.values())
    reasons = "\n".join(
        f"| `{reason}` | {fault.status} `{fault.code}` | {fault.rfc} | {fault.message.format(limit='so many')} |"
        for reason, fault in FAULTS.items()
    )
    return f"""# Error codes

Made by `scripts/reference` from the tables in `idkmesh/httpd/errors.py` and `idkmesh/httpd/head_faults.py`; change it
there.

A code keeps its name and status. It stands in `error.code` of the envelope, with `error.retryable` beside it.

{sections}
## Reasons of a refused head

What breaks a rule of HTTP has a reason besides, in `details.reason`: a rule of the request's head (HS-3).

| reason | status and code | clause | what is said |
|---|---|---|---|
{reasons}
"""


def inspection_section(rule: Rule, example: dict[str, str]) -> str:
    """Return the section about one rule of the inspection, with its example before and after."""
    return f"""<a id="{rule.id.lower()}"></a>

### {rule.id}: {rule.title}

{paragraph(f"**{rule.severity.value.capitalize()}.** {rule.why}")}

{paragraph(f"What to do: {rule.mend}")}

{EXAMPLE_PARTS[example["in"]]}:

```yaml
{example["before"].rstrip()}
```

After:

```yaml
{example["after"].rstrip()}
```
"""


def inspection_page() -> str:
    """Return ``inspection.md``, from the table of rules and the file of examples beside the page."""
    examples = yaml.safe_load((DIRECTORY / "inspection-examples.yaml").read_text(encoding="utf-8"))
    families = "\n".join(
        f"## {name}\n\n" + "\n".join(inspection_section(rule, examples[rule.id]) for rule in rules)
        for name, rules in FAMILIES.items()
    )
    listed = "\n".join(
        f"| [{rule.id}](#{rule.id.lower()}) | {rule.severity.value} | {rule.title} |" for rule in RULES.values()
    )
    return f"""# Rules of `idkmesh inspect`

Made by `scripts/reference` from the tables in `idkmesh/inspection/rules_*.py` and from `inspection-examples.yaml`;
change it there. A rule keeps its id and its meaning.

An error does harm, or the platform refuses the file. A warning does harm under load, at a start or in an outage. A note
works, and there is a better way. Only an error makes the exit code 1.

Containers of the examples have `ports: [{{name: http, containerPort: 8080}}]` and stand in a Deployment. Examples of a
matrix leave out what `base` in `inspection-examples.yaml` says, and so do those of PB410 and PB411, which are held
against it.

| rule | severity | |
|---|---|---|
{listed}

{families}"""


def class_section(name: str, entry: CatalogEntry) -> str:
    """Return the section about one class of the catalog."""
    command = " ".join(f"'{part}'" if part == "*" else part for part in entry.readiness().command)
    port = "" if entry.port is None else f" {entry.port} is the module's `port` where it has one."
    about = f"Debian's package `{entry.package}` has the program.{port}"
    return f"""## {name}

    {command}

{paragraph(about)}

{paragraph(f"Exit status 0: {entry.proves}")}

{paragraph(f"Not: {entry.proves_not}")}
"""


def classes_page() -> str:
    """Return ``classes.md``, from the catalog of classes."""
    sections = "\n".join(class_section(name, entry) for name, entry in CATALOG.items())
    return f"""# Classes of modules

Made by `scripts/reference` from the table in `idkmesh/workloads/catalog.py`; change it there.

A module of `modules.yaml` can name one of these as its `class`, and has its readiness command then, with 5 s for each
run. A module's own `readiness` wins, and so does a class of the file with the same name. A program that the instance
does not have says nothing: the instance is judged by its port alone.

{sections}"""


PAGES = {
    "settings.md": settings_page,
    "errors.md": errors_page,
    "api.md": api_page,
    "schemas.md": schemas_page,
    "metrics.md": metrics_page,
    "inspection.md": inspection_page,
    "matrix.md": matrix_page,
    "classes.md": classes_page,
}


def main() -> None:
    """Write each page."""
    for name, page in PAGES.items():
        (DIRECTORY / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
