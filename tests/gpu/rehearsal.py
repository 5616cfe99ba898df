"""The play without a GPU: real processes, agent, keepers and coordinator, and a driver that is made up."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.owner_kill.guest import guest_dirs, members
from tests.gpu.programs import REHEARSED_GUEST, REHEARSED_OWNER
from tests.gpu.scene import NODE, Props
from tests.unit.nvml.cards import GIB, STATE_VARIABLE, FakeDriver, a_card

FAKE = Path(__file__).resolve().parents[1] / "unit" / "nvml"
LOOK_S = 0.05


@contextlib.contextmanager
def rehearsed(folder: Path, campus: Path, guest: str = REHEARSED_GUEST) -> Iterator[Props]:
    """`campus` is where the scene will play: its guests are made visible to the fake driver."""
    on_it = folder / "on-it"
    on_it.mkdir()
    FakeDriver(folder / "nvml.json").says(gpus=[a_card(0, processes_dir=str(on_it))])

    def used_bytes() -> int:
        return GIB * (1 + sum(os.path.exists(f"/proc/{name}") for name in os.listdir(on_it)))

    over = threading.Event()
    making_seen = threading.Thread(target=_make_seen, args=(campus / NODE, on_it, over), daemon=True)
    making_seen.start()
    python_path = os.pathsep.join([str(FAKE), os.environ.get("PYTHONPATH", "")])
    try:
        yield Props(
            guest=guest,
            owner=REHEARSED_OWNER,
            used_bytes=used_bytes,
            unsandboxed=True,
            agent_environment={
                STATE_VARIABLE: str(folder / "nvml.json"),
                STAND_IN_VARIABLE: "fake_nvml",
                "PYTHONPATH": python_path,
            },
            owner_environment={"FAKE_GPU": str(on_it)},
        )
    finally:
        over.set()
        making_seen.join()


def _make_seen(state_dir: Path, on_it: Path, over: threading.Event) -> None:
    while not over.wait(LOOK_S):
        for guest_dir in guest_dirs(str(state_dir)):
            for pid, _ in members(guest_dir):
                (on_it / str(pid)).touch()
