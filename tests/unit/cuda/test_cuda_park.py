"""Moving GPU memory through the driver: all or nothing, within a time, and a reason for every no."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpunion.adapters import cuda
from gpunion.adapters.cuda.child import STAND_IN_VARIABLE
from gpunion.adapters.cuda.hooks import CudaHooks
from gpunion.ports.checkpointer import RestoreRefused
from gpunion.ports.gpus import GpuDevice
from tests.unit.cuda.fake_cuda import CHECKPOINTED, FOLDER_VARIABLE, LOCKED, NOT_READY, RUNNING

LIMIT_S = 20.0


class FakeCuda:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, **states: int) -> None:
        for name, state in states.items():
            (self._folder / name.removeprefix("p")).write_text(str(state))

    def plans(self, plan: dict[str, object]) -> None:
        (self._folder / "plan.json").write_text(json.dumps(plan))

    def state(self, pid: int) -> int:
        return int((self._folder / str(pid)).read_text())

    @property
    def calls(self) -> list[str]:
        return (self._folder / "calls").read_text().splitlines()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(STAND_IN_VARIABLE, "tests.unit.cuda.fake_cuda")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3])]))
    return FakeCuda(tmp_path)


def test_all_processes_are_locked_before_the_first_is_moved(driver: FakeCuda) -> None:
    driver.has(p11=RUNNING, p12=RUNNING)
    moved = cuda.park([11, 12], LIMIT_S)
    assert moved.pids == (11, 12)
    assert driver.calls == ["lock 11", "lock 12", "checkpoint 11", "checkpoint 12"]
    assert cuda.states([11, 12]) == {11: "checkpointed", 12: "checkpointed"}


def test_a_parked_guest_gets_its_memory_back_and_computes_on(driver: FakeCuda) -> None:
    driver.has(p11=CHECKPOINTED, p12=CHECKPOINTED)
    cuda.unpark([11, 12], LIMIT_S)
    assert (driver.state(11), driver.state(12)) == (RUNNING, RUNNING)


def test_what_cannot_be_moved_for_one_is_undone_for_all(driver: FakeCuda) -> None:
    driver.has(p11=RUNNING, p12=RUNNING)
    driver.plans({"checkpoint:12": 801})
    with pytest.raises(cuda.NotParked, match="does not support it"):
        cuda.park([11, 12], LIMIT_S)
    assert (driver.state(11), driver.state(12)) == (RUNNING, RUNNING)


def test_gpu_work_that_does_not_come_to_rest_leaves_the_guest_as_it_was(driver: FakeCuda) -> None:
    driver.has(p11=RUNNING)
    driver.plans({"lock:11": NOT_READY})
    with pytest.raises(cuda.NotParked, match="did not come to rest"):
        cuda.park([11], LIMIT_S)
    assert driver.state(11) == RUNNING


def test_a_driver_that_hangs_is_left_and_the_guest_let_go(
    driver: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "START_S", 0.5)
    driver.has(p11=RUNNING)
    driver.plans({"checkpoint:11": "hang"})
    with pytest.raises(cuda.NotParked, match=r"not done within 0\.01 s"):
        cuda.park([11], 0.01)
    assert driver.state(11) in (RUNNING, LOCKED)  # locked only if even the letting go ran out of its time


def test_an_old_driver_is_named_as_the_reason(driver: FakeCuda) -> None:
    driver.has(p11=RUNNING)
    driver.plans({"version": 12_040})
    with pytest.raises(cuda.NotParked, match=r"too old \(CUDA 12\.4\).*570"):
        cuda.park([11], LIMIT_S)


def test_a_guest_whose_state_is_lost_cannot_go_on(driver: FakeCuda) -> None:
    driver.has(p11=3)
    with pytest.raises(cuda.NotUnparked, match="state at the driver is lost"):
        cuda.unpark([11], LIMIT_S)


def test_slices_and_shared_gpus_are_refused_before_anything_is_tried(tmp_path: Path) -> None:
    assert "MIG slice" in cuda.why_not(["MIG-0123"])
    daemon = tmp_path / "42"
    daemon.mkdir()
    (daemon / "comm").write_text("nvidia-cuda-mps-server"[:15] + "\n")
    assert "MPS" in cuda.why_not(["GPU-0123"], str(tmp_path))
    assert cuda.why_not(["GPU-0123"], str(tmp_path / "42")) == ""


def test_a_process_without_a_gpu_is_none_that_computes() -> None:
    assert cuda.computing([os.getpid(), 2**30]) == ()


def test_no_driver_at_all_is_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STAND_IN_VARIABLE, raising=False)
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a driver here")
    with pytest.raises(cuda.NotParked, match="no NVIDIA driver here"):
        cuda.park([os.getpid()], 1.0)


def test_a_restored_guest_gets_its_gpu_memory_back_and_the_rest_of_it_is_left_alone(driver: FakeCuda) -> None:
    driver.has(p11=CHECKPOINTED, p13=RUNNING)
    CudaHooks(lambda index: None).after_restore([11, 12, 13])  # 12 is a shell: the driver does not know it
    assert (driver.state(11), driver.calls) == (RUNNING, ["restore 11", "unlock 11"])


def test_a_restored_guest_whose_memory_stays_away_cannot_go_on(driver: FakeCuda) -> None:
    driver.has(p11=CHECKPOINTED)
    driver.plans({"restore:11": 801})
    with pytest.raises(RestoreRefused, match="did not come back"):
        CudaHooks(lambda index: None).after_restore([11])


def test_guests_on_several_gpus_or_on_a_slice_are_not_dumped() -> None:
    def slice_of(index: int) -> GpuDevice:
        return GpuDevice(index=index, uuid="MIG-7", nodes=())

    assert "NCCL" in CudaHooks(slice_of).covers((0, 1))
    assert "MIG" in CudaHooks(slice_of).covers((0,))
    assert CudaHooks(lambda index: None).covers(()) == ""
