"""The agent's hands fetch states ahead: in the background, only while the machine is lent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.effects import Performer
from gpunion.agent.link.log_upload import LogPusher
from gpunion.domain.ids import CheckpointId
from gpunion.domain.protocol.effects import DropState, FetchState, StartGuest
from gpunion.domain.protocol.events import GuestStarted, StateFetched
from gpunion.domain.protocol.orders import StageState
from gpunion.domain.resources import MIB
from gpunion.vault.files_ready import DirectoryReady
from gpunion.vault.manifest import CheckpointLabel
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.ship import ship_directory
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.values import JOB, RUN, an_order

SIZE = MIB
ORDER = StageState(run_id=RUN, job_id=JOB, epoch=1, checkpoint_id=CheckpointId("c1"), rate_bps=0.0)


class Scene:
    """A vault with a checkpoint of a job in it, and a machine that has none of it."""

    def __init__(self, root: Path) -> None:
        self.lending = True
        self.fake = FakeWorld(root)
        self.vault = DirectoryVault(root / "vault")
        self.ready = DirectoryReady(root / "states", limit_bytes=16 * MIB)
        self.fake.world = replace(self.fake.world, open_vault=lambda places: self.vault, ready=self.ready)
        logs = LogPusher(self.fake.link, root / "logs")
        logs.open()
        self.performer = Performer(self.fake.world, logs, lambda: self.lending)
        saved = root / "saved"
        saved.mkdir()
        (saved / "state").write_bytes(bytes(range(256)) * (SIZE // 256))
        label = CheckpointLabel(
            checkpoint_id="c1", job_id=JOB, epoch=1, step=1, progress=0.1, tier="app", created_s=0.0
        )
        self.manifest = ship_directory(self.vault, saved, label)

    def lacking(self) -> set[str]:
        names = {name for entry in self.manifest.files for name in entry.blocks}
        return self.ready.lacking(JOB, names)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_state_is_fetched_and_told_and_dropped(scene: Scene) -> None:
    scene.performer.perform(FetchState(order=ORDER))
    scene.performer.perform(FetchState(order=ORDER))  # performed twice, fetched once
    await until(lambda: scene.fake.of(StateFetched))
    told = StateFetched(job_id=JOB, epoch=1, checkpoint_id=CheckpointId("c1"), fetched_bytes=SIZE)
    assert scene.fake.of(StateFetched) == [told]
    assert scene.lacking() == set()
    scene.performer.perform(FetchState(order=replace(ORDER, rate_bps=1e9)))  # and again: nothing is missing
    await until(lambda: len(scene.fake.of(StateFetched)) == 2)
    assert scene.fake.of(StateFetched)[1] == replace(told, fetched_bytes=0)
    scene.performer.perform(DropState(job_id=JOB))
    await until(lambda: scene.ready.jobs() == ())


async def test_nothing_is_fetched_for_guests_of_a_machine_whose_owner_is_back(scene: Scene) -> None:
    scene.lending = False
    scene.performer.perform(FetchState(order=ORDER))
    await until(lambda: not scene.performer.staging)
    assert scene.lacking() != set()
    assert scene.fake.of(StateFetched) == []


async def test_a_job_without_a_checkpoint_is_no_trouble(scene: Scene) -> None:
    scene.performer.perform(FetchState(order=replace(ORDER, job_id=type(JOB)("another"))))
    await until(lambda: not scene.performer.staging)
    assert scene.fake.of(StateFetched) == []


async def test_when_its_job_comes_the_fetch_ends_and_what_came_is_used(scene: Scene) -> None:
    scene.performer.perform(FetchState(order=replace(ORDER, rate_bps=1.0)))  # would take for ever
    await until(lambda: not scene.lacking())
    scene.performer.perform(StartGuest(order=an_order(epoch=2), lease_until_s=1010.0))
    await until(lambda: scene.fake.of(GuestStarted))
    await until(lambda: not scene.performer.staging)
    assert scene.fake.of(StateFetched) == []


async def test_what_is_dropped_while_it_is_fetched_leaves_nothing(scene: Scene) -> None:
    scene.performer.perform(FetchState(order=ORDER))
    scene.performer.perform(DropState(job_id=JOB))
    await until(lambda: not scene.performer.staging)
    assert scene.ready.jobs() == ()
