"""The child that asks the driver: it answers, hangs, dies and is replaced; nobody waits for it for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpunion.adapters.nvml import NvmlGpus, ProbeTrouble, find_gpus
from gpunion.adapters.nvml import probe as probing
from gpunion.adapters.nvml.probe import Probe, ask_once
from gpunion.adapters.nvml.words import cards
from tests.real_machine import PATIENCE_S
from tests.unit.nvml.cards import FakeDriver, a_card


@pytest.fixture
async def gpus(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NvmlGpus]:
    """With the patience of a busy machine; who hangs on purpose is given less."""
    monkeypatch.setattr(probing, "FIRST_ANSWER_LIMIT_S", PATIENCE_S)
    driver.says(gpus=[a_card(0), a_card(1, model="NVIDIA L4")])
    gpus = NvmlGpus(cards(ask_once(PATIENCE_S)), speeds={"L4": 0.7}, probe=Probe(limit_s=PATIENCE_S))
    yield gpus
    await gpus.close()


async def test_cards_are_numbered_in_the_drivers_order_and_seen_not_declared(gpus: NvmlGpus) -> None:
    found = gpus.inventory()
    assert [(gpu.index, gpu.model, gpu.speed, gpu.declared) for gpu in found] == [
        (0, "H200", 3.2, False),
        (1, "L4", 0.7, False),
    ]
    device = gpus.device(1)
    assert device is not None
    assert (device.uuid, device.nodes) == ("GPU-1", ("/dev/nvidia1",))
    assert gpus.device(7) is None


async def test_a_look_shows_what_changed(driver: FakeDriver, gpus: NvmlGpus) -> None:
    assert (await gpus.look()).trouble == ""
    driver.says(gpus=[a_card(0, temperature=81), a_card(1)])
    look = await gpus.look()
    sight = look.of(0)
    assert sight is not None
    assert sight.temperature_c == 81
    assert look.of(9) is None


async def test_two_who_look_at_once_both_see(gpus: NvmlGpus) -> None:
    """The watch of the GPUs looks all the time; one of its looks may meet that of a guest being parked."""
    await gpus.look()  # from here on there is a child that answers
    first, second = await asyncio.gather(gpus.look(), gpus.look())
    assert (first.trouble, second.trouble) == ("", "")
    assert [sight.uuid for sight in second.gpus] == ["GPU-0", "GPU-1"]


async def test_a_card_that_is_lost_keeps_its_number_and_says_so(driver: FakeDriver, gpus: NvmlGpus) -> None:
    driver.says(gpus=[a_card(0, lost=True), a_card(1)])
    look = await gpus.look()
    assert [(sight.index, bool(sight.gone)) for sight in look.gpus] == [(0, True), (1, False)]
    assert len(gpus.inventory()) == 2


async def test_a_card_that_is_put_in_gets_the_next_number(driver: FakeDriver, gpus: NvmlGpus) -> None:
    driver.says(gpus=[a_card(0), a_card(5), a_card(1)])
    look = await gpus.look()
    assert [sight.uuid for sight in look.gpus] == ["GPU-0", "GPU-1", "GPU-5"]
    assert [gpu.index for gpu in look.found] == [0, 1, 2]


async def test_a_driver_that_hangs_shows_what_was_last_seen_and_comes_back(
    driver: FakeDriver, gpus: NvmlGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await gpus.look()
    driver.says(hang=True, gpus=[a_card(0)])
    monkeypatch.setattr(gpus._probe, "_limit_s", 1.0)
    look = await gpus.look()
    assert "did not answer" in look.trouble
    assert look.gpus == before.gpus
    driver.says(gpus=[a_card(0, temperature=90), a_card(1)])
    again = await gpus.look()
    assert again.trouble == ""
    assert again.gpus[0].temperature_c == 90


async def test_a_child_that_dies_is_replaced(driver: FakeDriver, gpus: NvmlGpus) -> None:
    await gpus.look()
    driver.says(die=True, gpus=[])
    assert (await gpus.look()).trouble
    driver.says(gpus=[a_card(0), a_card(1)])
    assert (await gpus.look()).trouble == ""


async def test_children_stuck_in_the_driver_are_not_multiplied_without_end(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child left alive stands for one in an uninterruptible call: to kill it is no use."""
    monkeypatch.setattr(probing, "FIRST_ANSWER_LIMIT_S", 0.2)
    driver.says(hang=True, gpus=[])

    class Unkillable(Probe):
        def _give_up(self) -> None:
            if self._child is not None:
                self._stuck.append(self._child)
            self._child = None

    probe = Unkillable(limit_s=0.2)
    for _ in range(probing.STUCK_MAX):
        with pytest.raises(ProbeTrouble, match="did not answer"):
            await probe.ask()
    with pytest.raises(ProbeTrouble, match="are stuck"):
        await probe.ask()
    assert len(probe._stuck) == probing.STUCK_MAX
    for child in probe._stuck:
        child.kill()
        await child.wait()


async def test_a_driver_that_is_not_there_at_first_is_asked_again(driver: FakeDriver) -> None:
    driver.says(no_driver=True, gpus=[])
    gpus = find_gpus()
    assert gpus.inventory() == ()
    assert "Driver Not Loaded" in gpus.describe()
    driver.says(gpus=[a_card(0)])
    assert [gpu.model for gpu in (await gpus.look()).found] == ["H200"]
    await gpus.close()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUNION_TEST_NVML", "no_such_binding")
    assert "not installed" in find_gpus().describe()


def test_a_card_keeps_its_number_over_a_restart_while_another_one_is_lost(
    driver: FakeDriver, tmp_path: Path
) -> None:
    driver.says(gpus=[a_card(0), a_card(1, model="NVIDIA L4")])
    find_gpus(memory=tmp_path / "gpus.json")
    driver.says(gpus=[a_card(0, lost=True), a_card(1, model="NVIDIA L4")])
    again = find_gpus(memory=tmp_path / "gpus.json")
    assert [(gpu.index, gpu.model) for gpu in again.inventory()] == [(0, "H200"), (1, "L4")]


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"boot": "another", "cards": []}', '{"cards": [1]}'])
def test_numbers_of_another_boot_or_in_a_damaged_file_are_given_anew(
    driver: FakeDriver, tmp_path: Path, text: str
) -> None:
    (tmp_path / "gpus.json").write_text(text)
    assert len(find_gpus(memory=tmp_path / "gpus.json").inventory()) == 1


def test_a_driver_that_hangs_keeps_no_agent_from_starting(driver: FakeDriver) -> None:
    driver.says(hang=True, gpus=[])
    with pytest.raises(ProbeTrouble, match="did not answer"):
        ask_once(limit_s=0.5)
