"""What is asked of the driver, and what becomes of its refusals."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.nvml.driver import Driver
from gpunion.adapters.nvml.opened import Openers, pids_are_ours
from gpunion.adapters.nvml.slices import slice_nodes
from gpunion.adapters.nvml.words import cards, shown_model
from gpunion.agent.machine.gpu_verdicts import Quarantine
from gpunion.domain.gpu_models import UNKNOWN, speed_of
from gpunion.domain.protocol.events import OwnerReclaimed
from gpunion.domain.resources import GIB
from gpunion.ports.gpus import GpuProcess
from tests.unit.nvml.cards import FakeDriver, a_card


def look(trusts_pids: bool = True, openers: Openers | None = None) -> list[dict]:
    fake = importlib.import_module("fake_nvml")
    return Driver(fake, openers or Openers(), trusts_pids=trusts_pids).look()


def test_everything_a_card_says_is_heard(driver: FakeDriver) -> None:
    driver.says(gpus=[a_card(3, processes=[[4711, GIB]], xids=[31, 79])], driver="550.54.15", cuda=12040)
    (card,) = cards(look())
    assert (card.uuid, card.model, card.memory_bytes, card.speed) == ("GPU-3", "H200", 140 * GIB, 3.2)
    assert (card.compute_capability, card.nodes) == ("9.0", ("/dev/nvidia3",))
    assert (card.driver, card.cuda) == ("550.54.15", "12.4")
    lent = card.lent(0, None)
    assert (lent.compute_capability, lent.driver, lent.cuda) == ("9.0", "550.54.15", "12.4")
    sight = card.sight
    assert (sight.utilisation, sight.temperature_c, sight.power_w) == (0.4, 55, 300.5)
    assert (sight.ecc_uncorrected, sight.xids) == (0, (31, 79))
    assert sight.processes == (GpuProcess(pid=4711, memory_bytes=GIB),)


def test_a_card_that_refuses_every_question_but_its_name_is_still_lent(driver: FakeDriver) -> None:
    driver.says(gpus=[{"uuid": "GPU-0", "model": "NVIDIA GeForce RTX 4090"}])
    (card,) = cards(look())
    assert (card.model, card.speed, card.memory_bytes, card.nodes) == ("RTX 4090", 1.0, 0, ())
    assert (card.compute_capability, card.driver, card.cuda) == ("", "", "")
    sight = card.sight
    assert (sight.memory_used_bytes, sight.utilisation, sight.power_w, sight.processes) == (None,) * 4


@pytest.mark.parametrize("how", [{"lost": True}, {"unplugged": True}])
def test_a_card_that_does_not_answer_is_not_among_the_living(driver: FakeDriver, how: dict) -> None:
    driver.says(gpus=[a_card(0, **how), a_card(1)])
    readings = look()
    assert "lost" in readings[0]["gone"]
    assert [card.uuid for card in cards(readings)] == ["GPU-1"]


def test_slices_are_lent_instead_of_the_card_they_are_cut_from(driver: FakeDriver) -> None:
    slices = [
        a_card(uuid=f"MIG-{n}", model="NVIDIA H200 MIG 3g.71gb", memory_bytes=70 * GIB, gpu_instance=n)
        for n in range(2)
    ]
    driver.says(gpus=[a_card(0, slices=slices), a_card(1)])
    found = cards(look())
    assert [card.uuid for card in found] == ["MIG-0", "MIG-1", "GPU-1"]
    assert found[0].speed == pytest.approx(1.6)
    assert found[0].sight.temperature_c == 55


def test_a_slice_is_opened_by_the_card_and_its_capabilities(tmp_path: Path) -> None:
    place = tmp_path / "gpu0" / "mig" / "gi2"
    (place / "ci0").mkdir(parents=True)
    (place / "access").write_text("DeviceFileMinor: 30\nDeviceFileMode: 292\n")
    (place / "ci0" / "access").write_text("DeviceFileMinor: 31\n")
    caps = ["/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"]
    assert slice_nodes(0, 2, 0, tmp_path) == ["/dev/nvidia0", *caps]
    assert slice_nodes(0, 5, 0, tmp_path) == ["/dev/nvidia0"]
    assert slice_nodes(None, 2, 0, tmp_path) == []


def test_in_a_namespace_of_its_own_processes_are_told_by_what_they_opened(
    driver: FakeDriver, tmp_path: Path
) -> None:
    def process(pid: int, *targets: str) -> None:
        folder = tmp_path / str(pid) / "fd"
        folder.mkdir(parents=True)
        for number, target in enumerate(targets):
            os.symlink(target, folder / str(number))

    process(10, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
    process(11, "/dev/nvidiactl", "/dev/nvidia0")  # only asks
    process(12, "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/null")
    (tmp_path / "version").write_text("not a process")
    driver.says(gpus=[a_card(0, processes=[[999, 1]])])
    (card,) = cards(look(trusts_pids=False, openers=Openers(str(tmp_path))))
    assert card.sight.processes == (GpuProcess(pid=10),)


def test_a_namespace_is_known_by_its_number(tmp_path: Path) -> None:
    os.symlink("pid:[4026531836]", tmp_path / "initial")
    os.symlink("pid:[4026539999]", tmp_path / "own")
    assert pids_are_ours(str(tmp_path / "initial"))
    assert not pids_are_ours(str(tmp_path / "own"))
    assert pids_are_ours(str(tmp_path / "not there"))


@pytest.mark.parametrize(
    ("name", "speed"),
    [("NVIDIA H100 PCIe", 2.4), ("NVIDIA L40S", 1.1), ("NVIDIA L40", 0.6), ("Quadro 9999", UNKNOWN)],
)
def test_a_cards_speed_is_that_of_the_longest_name_it_has(name: str, speed: float) -> None:
    assert speed_of(name) == speed


def test_names_are_shown_without_their_makers() -> None:
    assert [shown_model(name) for name in ("NVIDIA A100-SXM4-80GB", "Tesla T4", "")] == [
        "A100-SXM4-80GB",
        "T4",
        "unknown",
    ]


def test_nonsense_from_the_child_is_no_card() -> None:
    assert cards({"not": "a list"}) == []
    assert cards([None, {}, {"uuid": ""}]) == []
    (odd,) = cards([{"uuid": "x", "memory_bytes": True, "power_w": float("nan")}])
    assert (odd.memory_bytes, odd.sight.power_w) == (0, None)


def test_a_slice_tells_its_card_and_its_shape(driver: FakeDriver) -> None:
    slices = [
        a_card(
            uuid=f"MIG-{n}", model="NVIDIA A100-SXM4-80GB MIG 1g.10gb", memory_bytes=10 * GIB, gpu_instance=n
        )
        for n in range(2)
    ]
    driver.says(gpus=[a_card(0, slices=slices), a_card(1)])
    lent = [card.lent(index, None) for index, card in enumerate(cards(look()))]
    assert [(gpu.card, gpu.profile) for gpu in lent] == [("GPU-0", "1g.10gb")] * 2 + [("", "")]


def test_a_fault_of_a_card_is_that_of_all_its_slices(driver: FakeDriver) -> None:
    slices = [a_card(uuid=f"MIG-{n}", memory_bytes=10 * GIB, gpu_instance=n) for n in range(3)]
    driver.says(gpus=[a_card(0, slices=slices, ecc=4), a_card(1)])
    sights = [replace(card.sight, index=index) for index, card in enumerate(cards(look()))]
    withheld = Quarantine().look(sights, ())
    assert [word.gpus for word in withheld if isinstance(word, OwnerReclaimed)] == [(0,), (1,), (2,)]
