from __future__ import annotations

import pytest

from idkmesh.workloads.probe_user import probe_uid


@pytest.mark.parametrize(("environ", "uid"), [({}, 65534), ({"IDKMESH_PROBE_UID": ""}, 65534)])
def test_nobody_unless_said_otherwise(environ: dict[str, str], uid: int) -> None:
    """AR-3.2: commands run as the user 65534 unless somebody says otherwise."""
    assert probe_uid(environ) == uid


@pytest.mark.parametrize("text", ["0", "1000", "4294967294"])
def test_a_number(text: str) -> None:
    """AR-3.2: a user is a number; 0 is one."""
    assert probe_uid({"IDKMESH_PROBE_UID": text}) == int(text)


@pytest.mark.parametrize("text", ["nobody", "-1", " 1", "1.0", "4294967295", "9" * 5000, "²", "٣"])
def test_no_number(text: str) -> None:
    """AR-3.2: what is no user's number is refused in one line, and never taken for root."""
    with pytest.raises(ValueError, match=r"IDKMESH_PROBE_UID: .* is refused"):
        probe_uid({"IDKMESH_PROBE_UID": text})
