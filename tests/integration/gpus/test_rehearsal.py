"""The play of tests/gpu with a driver that is made up: real processes, agent, keepers and coordinator."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.owner_kill.guest import guest_dirs, members
from tests.gpu.programs import REHEARSED_GUEST, REHEARSED_OWNER
from tests.gpu.run_on_gpu import verdicts
from tests.gpu.scene import NODE, Props, Scene
from tests.unit.nvml.conftest import STATE_VARIABLE, FakeDriver, a_card

GIB = 1024**3
FAKE = Path(__file__).resolve().parents[2] / "unit" / "nvml"


class Guests(threading.Thread):
    """Makes the fake driver see every process of every guest."""

    def __init__(self, state_dir: Path, on_it: Path) -> None:
        super().__init__(daemon=True)
        self._state_dir = state_dir
        self._on_it = on_it
        self._over = threading.Event()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(0.05):
            for guest_dir in guest_dirs(str(self._state_dir)):
                for pid, _ in members(guest_dir):
                    (self._on_it / str(pid)).touch()


def test_a_guest_is_seen_yields_to_the_owner_and_leaves_the_gpu_when_killed(tmp_path: Path) -> None:
    on_it = tmp_path / "on-it"
    on_it.mkdir()
    FakeDriver(tmp_path / "state.json").says(gpus=[a_card(0, processes_dir=str(on_it))])

    def used_bytes() -> int:
        return GIB * (1 + sum(os.path.exists(f"/proc/{name}") for name in os.listdir(on_it)))

    guests = Guests(tmp_path / "campus" / NODE, on_it)
    python_path = os.pathsep.join([str(FAKE), os.environ.get("PYTHONPATH", "")])
    props = Props(
        guest=REHEARSED_GUEST,
        owner=REHEARSED_OWNER,
        used_bytes=used_bytes,
        unsandboxed=True,
        agent_environment={
            STATE_VARIABLE: str(tmp_path / "state.json"),
            STAND_IN_VARIABLE: "fake_nvml",
            "PYTHONPATH": python_path,
        },
        owner_environment={"FAKE_GPU": str(on_it)},
    )
    with guests:
        found = Scene(root=tmp_path / "campus", props=props).play()
    judged = verdicts(found)
    del judged["auto_yield_within_2_s"]  # how fast is for a machine that is not busy with other tests
    del judged["memory_free_within_1_s_of_kill"]
    assert all(judged.values()), found
    assert found["yield"]["cause"] == "own_work"
    assert any("compute" in sentence for sentence in found["yield"]["told_to_the_job"]), found["yield"]
