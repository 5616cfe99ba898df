"""What every source of GPUs promises, whether a driver is asked or the owner is believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.adapters.declared_gpus import DeclaredGpus
from gpunion.adapters.nvml import find_gpus
from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.domain.resources import GIB, Gpu
from gpunion.ports.gpus import Gpus
from tests.unit.nvml.cards import STATE_VARIABLE, FakeDriver, a_card

FAKE = Path(__file__).resolve().parents[2] / "unit" / "nvml"


@pytest.fixture(params=["declared", "nvml"])
def gpus(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    if request.param == "declared":
        return DeclaredGpus(tuple(Gpu(index=7, model="A100", memory_bytes=80 * GIB) for _ in range(2)))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state.json"))
    monkeypatch.setenv(STAND_IN_VARIABLE, "fake_nvml")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), os.environ.get("PYTHONPATH", "")]))
    FakeDriver(tmp_path / "state.json").says(gpus=[a_card(0), a_card(1)])
    return find_gpus()


async def test_numbers_begin_at_0_and_have_no_gaps(gpus: Gpus) -> None:
    assert [gpu.index for gpu in gpus.inventory()] == [0, 1]
    await gpus.close()


async def test_only_what_a_driver_has_seen_is_not_called_declared(gpus: Gpus) -> None:
    assert all(gpu.declared is not gpus.watched for gpu in gpus.inventory())
    assert ("declared" in gpus.describe()) is not gpus.watched
    await gpus.close()


async def test_a_device_can_be_opened_only_where_a_driver_has_seen_it(gpus: Gpus) -> None:
    assert (gpus.device(0) is not None) is gpus.watched
    assert gpus.device(99) is None
    await gpus.close()


async def test_looking_never_raises_and_speaks_of_known_numbers_only(gpus: Gpus) -> None:
    look = await gpus.look()
    assert {sight.index for sight in look.gpus} <= {0, 1}
    assert bool(look.trouble) is not gpus.watched
    await gpus.close()
    await gpus.close()
