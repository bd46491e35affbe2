"""The worlds of the contract suite, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.topology_worlds import a_nacos
from tests.contract.worlds import WORLDS, World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def the_shared_nacos_ends() -> Iterator[None]:
    yield
    if a_nacos.cache_info().currsize:
        a_nacos().end()


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with WORLDS[request.param](request) as made:
        yield made
