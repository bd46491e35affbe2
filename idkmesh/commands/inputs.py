"""What the commands are given: the settings in force, and the files that they name, each read or refused in a line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from idkmesh import console, settings
from idkmesh.console import EXIT_USAGE, CommandError
from idkmesh.service_runtime import SettingError
from idkmesh.settings_in_force import InForce, in_force, slips, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.health.model import ProbeMatrix
    from idkmesh.workloads.model import Declaration
    from idkmesh.workloads.service import Supervised

Flags: TypeAlias = "Mapping[str, Any]"
"""What the command line says of a command's settings, by their names; None where it says nothing."""


def settings_of(command: str, flags: Flags) -> InForce:
    """Return what flags and variables ask for, and warn of variables that change nothing (HS-2.1, CT-9.11).

    Raises :class:`CommandError` (exit code 2).
    """
    warn_of_slips(command)
    return chosen(command, flags)


def chosen(command: str, flags: Flags) -> InForce:
    """Return what flags and variables ask for. Raises :class:`CommandError` (exit code 2)."""
    try:
        return in_force(command, flags, os.environ)
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def warn_of_slips(command: str | None = None) -> None:
    """Warn of each variable of our name that changes nothing, in a line (HS-2.1)."""
    for line in slips(os.environ, command):
        console.complain(f"idkmesh: {line}")


def whole(given: InForce) -> InForce:
    """Return the same where nothing is missing that the command cannot do without, else raise (exit code 2)."""
    told = given.missing()
    if told is not None:
        raise CommandError(told, EXIT_USAGE)
    return given


def of_tower(name: str, flag: object) -> Any:  # noqa: ANN401  each setting has a type of its own
    """Return what flag and variable ask for one setting of a control tower, for a command that looks for the tower's.

    Raises :class:`CommandError` (exit code 2).
    """
    try:
        return value_of(settings.TOWER, name, os.environ, flag)
    except SettingError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def store_path(flag: str | None) -> Path:
    """Return the place of the event store: the flag's, else the variable's, else the user's own (EV-2.13)."""
    return store_named(of_tower("store", flag))


def store_of(given: InForce) -> Path:
    """Return the place of a service's event store."""
    return store_named(given["store"])


def store_named(name: str | None) -> Path:
    """Return the place of the event store that a name means, the user's own where there is none (EV-2.13)."""
    if name:
        return Path(name)
    from idkmesh.events.default_place import default_store

    return default_store()


def path_of(name: str | None) -> Path | None:
    """Return a file's name as a path, None where there is none."""
    return None if name is None else Path(name)


def matrix_of(file: Path) -> ProbeMatrix:
    """Read a matrix. Says all that is wrong with one that is refused, a line each (HL-3.2).

    Raises :class:`CommandError` (exit code 2).
    """
    from idkmesh.health.matrix_file import MatrixError, read_matrix

    try:
        return read_matrix(file)
    except MatrixError as error:
        raise console.refusal(error.lines()) from None


def supervised_of(given: InForce) -> Supervised | None:
    """Return what is to be supervised, None where no declaration is named. Raises :class:`CommandError` (code 2)."""
    return None if given["modules"] is None else supervision_of(given)


def supervision_of(given: InForce) -> Supervised:
    """Return what is to be supervised, of the declaration that is named. Raises :class:`CommandError` (code 2)."""
    from idkmesh.workloads.service import Supervised

    file = Path(given["modules"])
    return Supervised(declaration_of(file), given["probe_uid"], file)


def declaration_of(file: Path) -> Declaration:
    """Read a declaration of modules. Says all that is wrong with one that is refused, a line each (AR-2.4).

    Raises :class:`CommandError` (exit code 2).
    """
    from idkmesh.workloads.declaration import DeclarationError, read_declaration

    try:
        return read_declaration(file)
    except DeclarationError as error:
        raise console.refusal(error.lines()) from None


def session_token(given: InForce) -> str:
    """Return the session token: of the file, else of the variable, else a new one (CT-2.5).

    Raises :class:`CommandError` for a file that cannot be read and for another grammar.
    """
    from idkmesh.control_tower.security import checked_token, new_token

    file, text, source = given["token_file"], given["token"], given.values["token"].origin.name
    if file is not None:
        try:
            text = Path(file).read_bytes().decode("ascii", "replace")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise CommandError(f"cannot read the token file {file}: {console.reason(error)}") from None
    if text is None:
        return new_token()
    try:
        return checked_token(text, source or "token")
    except ValueError as error:
        raise CommandError(str(error)) from None
