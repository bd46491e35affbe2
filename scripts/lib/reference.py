"""Writes the pages of ``docs/reference/`` that are made from tables in the code. A test compares them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from idkmesh.control_tower.probe_listener import LIMITS
from idkmesh.events.retention import RETENTION_SETTINGS
from idkmesh.httpd.errors import ERROR_CODES
from idkmesh.inspection.catalogue import FAMILIES, RULES
from idkmesh.service_runtime import (
    MAX_HEADER_LINE_BYTES,
    MAX_REQUEST_LINE_BYTES,
    SETTINGS,
    SPARE_CONNECTIONS,
)
from idkmesh.workloads.catalog import CATALOG
from idkmesh.workloads.model import DEFAULT_PROBE_UID, PROCESS_VARIABLES
from scripts.lib.matrix_page import matrix_page

if TYPE_CHECKING:
    from idkmesh.httpd.errors import ErrorCode
    from idkmesh.inspection.findings import Rule
    from idkmesh.service_runtime import Setting
    from idkmesh.workloads.catalog import CatalogEntry

EXAMPLE_PARTS = {
    "file": "A file, before",
    "pod": "In a pod's spec, before",
    "container": "In a container, before",
    "services": "Under `services`, before",
    "matrix": "In a matrix, before",
}
DIRECTORY = Path(__file__).parents[2] / "docs" / "reference"


def paragraph(text: str) -> str:
    """Return the text in lines of at most 120 characters, broken at spaces."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def setting_section(setting: Setting, owner: str = "ServiceLimits") -> str:
    """Return the section about one setting; ``owner`` is the class that has it."""
    unit = "" if setting.unit == "count" else f" {setting.unit}"
    noun = "a whole number" if setting.kind is int else "a number"
    return f"""## {setting.name}

{paragraph(setting.meaning)}

| | |
|---|---|
| default | {setting.default:.15g}{unit} |
| range | {setting.minimum:.15g} to {setting.maximum:.15g}{unit} |
| constructor | `{owner}({setting.name}=...)`, {noun} |
| flag | `{setting.flag}` |
| variable | `{setting.env}` |
| in the limits document | `{setting.document_key}` |
| does not cover | {setting.not_covered} |
| precedent | {setting.precedent} |
"""


def settings_page() -> str:
    """Return ``settings.md``, from the settings table."""
    sections = "\n".join(setting_section(setting) for setting in SETTINGS)
    retention = "\n".join(setting_section(setting, "Retention") for setting in RETENTION_SETTINGS)
    return f"""# Settings

Made by `scripts/reference` from the tables in `idkmesh/service_runtime.py` and `idkmesh/events/retention.py`; change it
there.

Every serving command takes a flag for each limit and reads a variable for each. A flag wins over its variable, the
variable over the default. A value is a plain decimal number: no sign, exponent, underscore, unit or space. A value
outside its range is one line on standard error and exit code 2; in Python it is a `SettingError`, which is a
`ValueError`. The limits in force stand in the status document under `operations.limits`.

With workers, `max_connections` is at least `max_concurrent_requests` + `max_sse_clients` + {SPARE_CONNECTIONS}. The
serial profile, `ServiceLimits(serial=True)`, has no workers and no such rule.

{sections}
## Bounds that are no settings

The grammar has two more, which the limits document states too: a request line of {MAX_REQUEST_LINE_BYTES:,} bytes
(beyond it 414) and a header line of {MAX_HEADER_LINE_BYTES:,} bytes (431), both counted with their CRLF.

# What the event store keeps

`idkmesh control-tower`, `idkmesh supervise` and `idkmesh router` take these two, under the same rules.

{retention}
# Variables that are no limits

| variable | flag | what it says |
|---|---|---|
| `IDKMESH_STORE` | `--store` | the event store's file; `events.sqlite3` in the user's state directory if absent |
| `IDKMESH_CONTROL_TOWER_TOKEN` | `--token-file` names a file instead | the session token; random if absent |
| `IDKMESH_HTTP_ACCESS_LOG` | none | `1`: a line of JSON on standard error for each answer |

# Health and probes

Two that are no numbers, for `idkmesh control-tower` and `idkmesh serve`; a flag wins over its variable. `idkmesh
supervise` and `idkmesh router` have the second.

| flag | variable | |
|---|---|---|
| `--matrix FILE` | `IDKMESH_MATRIX` | The probe matrix. SIGHUP reads it again; also where a terminal hangs up. |
| `--probe-listen ADDR:PORT` | `IDKMESH_PROBE_LISTEN` | Where the four probe paths are answered besides, to anybody. |

# Workloads

For `idkmesh supervise` and `idkmesh control-tower`; intervals, cooldown and lease stand in the file itself.

| flag | variable | |
|---|---|---|
| `--modules FILE` | `IDKMESH_MODULES` | The declaration of modules. SIGHUP reads it again. |
| none | `IDKMESH_PROBE_UID` | The user that readiness commands run as, a number; {DEFAULT_PROBE_UID} if absent. |

A process of the driver `process`, and its readiness command, find these among their variables. They are no settings.

| variable | |
|---|---|
| `{PROCESS_VARIABLES[0]}` | The name of the module. |
| `{PROCESS_VARIABLES[1]}` | The name of the instance: the module's, `-`, and a number from 1 to `replicas`. |

# Routing

What a router does stands in its file, as [its contract](../specifications/ROUTER_TOPOLOGY_V0_1.md) says (RT-9.1).

| flag | |
|---|---|
| `idkmesh router --config FILE` | The router's configuration. |
| `idkmesh control-tower --router FILE` | The same, beside the tower. |

## Bounds of the probe listener

The probe listener has bounds of its own, which are no settings: {LIMITS.max_connections} connections, of which the
least useful gives way, {LIMITS.request_timeout:g} s for a request head of {LIMITS.max_header_bytes:,} bytes.
"""


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
    return f"""# Error codes

Made by `scripts/reference` from the table in `idkmesh/httpd/errors.py`; change it there.

A code keeps its name and status. It stands in `error.code` of the envelope, with `error.retryable` beside it.

{sections}"""


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
