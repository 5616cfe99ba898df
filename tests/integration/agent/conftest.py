from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.agent.campus import TestCampus
from tests.integration.agent.machine import Machine


@pytest.fixture
async def campus() -> AsyncIterator[TestCampus]:
    campus = TestCampus()
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
