from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.agent.campus import TIMING, TestCampus
from tests.integration.agent.machine import Machine


@pytest.fixture
async def campus(request: pytest.FixtureRequest) -> AsyncIterator[TestCampus]:
    """With a lease of so many seconds, where a test gives one as the parameter."""
    lease_s: float = getattr(request, "param", TIMING.lease_s)
    campus = TestCampus(replace(TIMING, lease_s=lease_s))
    await campus.start()
    yield campus
    if campus._server is not None:
        await campus.stop()


@pytest.fixture
async def machine(campus: TestCampus, tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(campus, tmp_path, "a1")
    await machine.join()
    yield machine
    machine.clear_up()


@pytest.fixture
def other_machine(campus: TestCampus, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(campus, tmp_path, "b1")
    yield machine
    machine.clear_up()
