"""What a run that has not started waits for is said for as long as it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpunion.agent.checkpoints.restore import STALLED_S
from gpunion.agent.dependencies import Fetched
from gpunion.agent.guests.controller import GuestHands
from gpunion.agent.run_records.preparing import PreparingBoard
from gpunion.domain.ids import CheckpointId
from gpunion.domain.protocol.effects import StartGuest
from gpunion.domain.protocol.events import GuestStarted
from gpunion.vault.manifest import Manifest
from tests.builders.memory_vault import a_manifest
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.values import RUN, an_order


class SlowVault:
    """Restores in three steps. What was said right before each, and when nothing had come for too long."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.board = PreparingBoard(lambda: self.now_s)
        self.heard: list[tuple[str, float | None]] = []

    def restore(self, manifest: Manifest, into: Path, *, told: Callable[[int], None], **_: object) -> Fetched:
        (into / "checkpoint").mkdir(parents=True)
        for came_bytes in (50, 50, 0):
            self._listens_after(0.9 * STALLED_S)
            told(came_bytes)
        self._listens_after(STALLED_S)
        return Fetched()

    def _listens_after(self, seconds: float) -> None:
        self.now_s += seconds
        self.heard += [(words.what, words.done) for words in self.board.all()]


async def test_while_its_state_comes_it_says_so_and_when_that_stalls_it_does_not(tmp_path: Path) -> None:
    fake, slow = FakeWorld(tmp_path), SlowVault()
    fake.world = replace(fake.world, preparing=slow.board, restore=slow.restore)
    fake.vault.sealed = [replace(a_manifest("c1", 10), total_bytes=100)]
    order = an_order(restore=CheckpointId("c1"), restore_step=10)
    GuestHands(fake.world, RUN).start(StartGuest(order=order, lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    assert slow.heard == [("fetching its state", done) for done in (0.0, 0.5, 1.0)]
