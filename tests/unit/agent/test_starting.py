"""How a guest comes to life: fenced, limited, restored; and why it may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.pip_packages import PipPackages
from gpunion.agent.guests.controller import GuestHands
from gpunion.agent.machine.packages import EnvironmentKeeper
from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import LimitGuest, StartGuest
from gpunion.domain.protocol.events import (
    GuestExited,
    GuestStarted,
    GuestStartFailed,
)
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.packages import PackagesFault, Wish
from gpunion.ports.runtime import RuntimeFault
from gpunion.vault.manifest import (
    CorruptBlock,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
    WrongKey,
)
from tests.builders.memory_vault import a_manifest
from tests.trees import a_tree
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import start
from tests.unit.agent.values import RUN, an_order


async def test_the_vault_is_fenced_first_and_limits_are_in_force_before_the_first_instruction(
    fake: FakeWorld,
) -> None:
    start(fake)
    await until(lambda: fake.of(GuestStarted))
    assert fake.journal == [
        "begin job-1 1",
        f"prepare {RUN} resume=False",
        f"limit {RUN} 1010.0 None",
        f"start {RUN}",
    ]
    assert fake.posted == [GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.0)]


async def test_limits_that_came_while_it_was_prepared_are_the_ones_it_starts_with(fake: FakeWorld) -> None:
    hands = start(fake)
    hands.limit(LimitGuest(run_id=RUN, lease_until_s=1020.0, kill_at_s=1005.0))
    await until(lambda: fake.of(GuestStarted))
    assert f"limit {RUN} 1020.0 1005.0" in fake.journal
    assert f"limit {RUN} 1010.0 None" not in fake.journal


async def test_it_goes_on_from_the_newest_seal_even_one_the_coordinator_never_heard_of(
    fake: FakeWorld,
) -> None:
    fake.vault.sealed = [a_manifest("c1", 10), a_manifest("c2", 20), a_manifest("out", 99, tier="output")]
    start(fake, an_order(restore=CheckpointId("c1"), restore_step=10))
    await until(lambda: fake.of(GuestStarted))
    assert fake.posted == [
        GuestStarted(run_id=RUN, restored=CheckpointId("c2"), resumed_step=20, restore_s=0.0)
    ]
    assert (fake.runtime.paths(RUN).checkpoint_dir / "state").read_text() == "saved"
    assert f"prepare {RUN} resume=True" in fake.journal


SEAT = Seat(size=2, rank=1)


async def test_a_gang_s_member_goes_on_from_exactly_what_it_is_told(fake: FakeWorld) -> None:
    fake.vault.sealed = [a_manifest("c1", 10), a_manifest("c2", 20)]
    start(fake, an_order(restore=CheckpointId("c1"), restore_step=10, seat=SEAT))
    await until(lambda: fake.of(GuestStarted))
    [event] = fake.of(GuestStarted)
    assert isinstance(event, GuestStarted)
    assert (event.restored, event.resumed_step) == ("c1", 10)


async def test_a_gang_that_has_no_common_save_begins_anew_whatever_a_member_has_saved(
    fake: FakeWorld,
) -> None:
    fake.vault.sealed = [a_manifest("c1", 10)]
    start(fake, an_order(seat=SEAT))
    await until(lambda: fake.of(GuestStarted))
    assert fake.posted == [GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.0)]


async def test_a_member_is_told_who_it_is_and_torchrun_s_words_where_there_is_an_address(
    fake: FakeWorld,
) -> None:
    start(fake, an_order(job_id="job-1-r1", seat=SEAT, environment=(("MASTER_ADDR", "10.0.0.7"),)))
    await until(lambda: fake.of(GuestStarted))
    assert fake.runtime.environment == {
        "GPUNION_GANG_ID": "job-1",
        "GPUNION_GANG_SIZE": "2",
        "GPUNION_GANG_RANK": "1",
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "RANK": "1",
    }


async def test_a_seal_that_cannot_be_read_gives_way_to_an_older_one(fake: FakeWorld) -> None:
    fake.vault.sealed = [a_manifest("c1", 10), a_manifest("c2", 20)]
    fake.vault.broken["c2"] = CorruptBlock("bits rotted")
    start(fake, an_order(restore=CheckpointId("c2"), restore_step=20))
    await until(lambda: fake.of(GuestStarted))
    [event] = fake.of(GuestStarted)
    assert isinstance(event, GuestStarted)
    assert (event.restored, event.resumed_step) == ("c1", 10)
    assert event.unreadable == "c2: bits rotted"


async def test_a_promised_save_that_is_not_there_any_more_is_told_of_where_an_older_one_does(
    fake: FakeWorld,
) -> None:
    fake.vault.sealed = [a_manifest("c1", 10)]
    start(fake, an_order(restore=CheckpointId("c2"), restore_step=20))
    await until(lambda: fake.of(GuestStarted))
    [event] = fake.of(GuestStarted)
    assert isinstance(event, GuestStarted)
    assert (event.restored, event.resumed_step) == ("c1", 10)
    assert event.unreadable.startswith("c2: it is not in the vault")


async def test_a_save_that_its_program_could_not_go_on_from_is_not_given_to_it_again(fake: FakeWorld) -> None:
    fake.vault.sealed = [a_manifest("c1", 10), a_manifest("c2", 20)]
    start(fake, an_order(restore=CheckpointId("c1"), restore_step=10, spoiled=(CheckpointId("c2"),)))
    await until(lambda: fake.of(GuestStarted))
    assert fake.posted == [
        GuestStarted(run_id=RUN, restored=CheckpointId("c1"), resumed_step=10, restore_s=0.0)
    ]


@pytest.mark.parametrize("sealed", [[], [a_manifest("c1", 10)]])
async def test_a_promised_checkpoint_that_nobody_can_read_fails_the_start(
    fake: FakeWorld, sealed: list[object]
) -> None:
    fake.vault.sealed = list(sealed)  # type: ignore[arg-type]
    fake.vault.broken["c1"] = CorruptBlock("bits rotted")
    start(fake, an_order(restore=CheckpointId("c1"), restore_step=10))
    await until(lambda: fake.of(GuestStartFailed))
    [event] = fake.of(GuestStartFailed)
    assert isinstance(event, GuestStartFailed)
    assert event.why is Why.SAVE_UNREADABLE
    assert f"start {RUN}" not in fake.journal


async def test_an_older_epoch_than_the_vault_knows_does_not_start(fake: FakeWorld) -> None:
    fake.vault.epochs["job-1"] = 5
    start(fake)
    await until(lambda: fake.of(GuestStartFailed))
    [failed] = fake.of(GuestStartFailed)
    assert isinstance(failed, GuestStartFailed)
    assert failed.why is Why.EPOCH_USED
    assert f"start {RUN}" not in fake.journal


@pytest.mark.parametrize("tier", ["app", "output"])
async def test_a_run_of_which_something_is_sealed_already_is_another_and_does_not_start(
    fake: FakeWorld, tier: str
) -> None:
    """A coordinator that was put back from a backup gives the number once more."""
    fake.vault.sealed = [a_manifest(f"{RUN}-c9", 0, epoch=1, tier=tier)]
    start(fake)
    await until(lambda: fake.posted)
    detail = "epoch 1 of job-1: epoch 1 has begun and saved"
    assert fake.posted == [GuestStartFailed(run_id=RUN, detail=detail, why=Why.EPOCH_USED)]
    assert f"start {RUN}" not in fake.journal


@pytest.mark.parametrize("fault", [VaultUnavailable, VaultDenied, VaultFull])
async def test_a_place_that_is_away_is_no_failed_start_of_the_job(
    fake: FakeWorld, fault: type[VaultFault], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(job_id: str, epoch: int) -> None:
        raise fault("attic is not mounted")

    monkeypatch.setattr(fake.vault, "begin", away)
    start(fake)
    await until(lambda: fake.posted)
    failed = GuestStartFailed(run_id=RUN, detail="attic is not mounted", why=Why.PLACE_NOT_REACHED)
    assert fake.posted == [failed]


async def test_the_owner_s_kill_wins_the_race_with_a_start(fake: FakeWorld) -> None:
    fake.killed = True
    start(fake)
    await until(lambda: fake.of(GuestStartFailed))
    assert f"start {RUN}" not in fake.journal


async def test_a_runtime_that_cannot_start_it_says_why(fake: FakeWorld) -> None:
    fake.runtime.start_fault = RuntimeFault("no such program", temporary=False)
    start(fake)
    await until(lambda: fake.of(GuestStartFailed))
    assert fake.posted == [GuestStartFailed(run_id=RUN, detail="no such program")]


async def test_a_guest_killed_while_it_is_prepared_never_starts_and_its_end_is_told_once(
    fake: FakeWorld,
) -> None:
    hands = start(fake)
    hands.kill(EndReason.DEADLINE)
    await until(lambda: fake.of(GuestExited))
    await hands.remove()
    assert f"start {RUN}" not in fake.journal
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert event.cause is EndReason.DEADLINE


async def test_a_start_that_is_asked_for_twice_happens_once(fake: FakeWorld) -> None:
    hands = start(fake)
    hands.start(StartGuest(order=an_order(), lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    assert fake.journal.count(f"start {RUN}") == 1


async def test_a_directory_is_made_and_fetched_once(fake: FakeWorld) -> None:
    digest = fake.link.serve(a_tree({"train.py": b"x", "src/a.py": b"y"}, {"src/link": "../train.py"}))
    start(fake, an_order(bundle=digest))
    await until(lambda: fake.of(GuestStarted))
    note = fake.run_notes.get(RUN)
    assert note is not None
    assert (note.paths.work_dir / "src" / "link").read_text() == "x"
    other = RunId("job-2-e1")
    hands = GuestHands(fake.world, other)
    hands.start(StartGuest(order=an_order(bundle=digest, run_id=other), lease_until_s=1010.0))
    await until(lambda: len(fake.of(GuestStarted)) == 2)
    assert len(fake.link.asked) == 1  # the second found all of it in the cache


async def test_a_directory_that_leads_outside_does_not_start(fake: FakeWorld) -> None:
    tree = a_tree({"d/e/f": b"x"}, {"d/up": "..", "out": "d/up/../../secret"})
    start(fake, an_order(bundle=fake.link.serve(tree)))
    await until(lambda: fake.of(GuestStartFailed))
    assert f"start {RUN}" not in fake.journal


async def test_a_directory_whose_fetching_was_cut_is_fetched_from_there_on(fake: FakeWorld) -> None:
    tree = a_tree({"a": b"1", "b": b"2", "c": b"3"})
    digest = fake.link.serve(tree)
    fake.link.fetch_faults = [LinkFault("away", temporary=True)]
    fake.link.cut_after = 2
    start(fake, an_order(bundle=digest))
    await until(lambda: fake.of(GuestStarted))
    assert [len(asked) for asked in fake.link.asked] == [3, 1]


async def test_a_directory_that_the_coordinator_does_not_have_fails_at_once(fake: FakeWorld) -> None:
    fake.link.fetch_faults = [LinkFault("no such directory", temporary=False)]
    start(fake, an_order(bundle="0" * 64))
    await until(lambda: fake.of(GuestStartFailed))
    assert fake.posted == [GuestStartFailed(run_id=RUN, detail="no such directory")]


async def test_another_key_ends_the_start_instead_of_beginning_anew(fake: FakeWorld) -> None:
    fake.vault.sealed.append(a_manifest("c1", 10))
    fake.vault.broken["c1"] = WrongKey("c1 was encrypted with another key")
    start(fake, an_order(vault_key="ab" * 32))
    await until(lambda: fake.of(GuestStartFailed))
    assert "another key" in str(fake.of(GuestStartFailed))
    assert f"start {RUN}" not in fake.journal


async def test_a_lockfile_that_cannot_be_installed_says_why(fake: FakeWorld) -> None:
    packages = NoSuchPackages(fake.root / "packages")
    fake.world = replace(fake.world, environments=EnvironmentKeeper(packages=packages))
    tree = a_tree({"requirements.txt": b"absent==9\n"})
    start(fake, an_order(bundle=fake.link.serve(tree), lockfile="requirements.txt"))
    await until(lambda: fake.of(GuestStartFailed))
    [failed] = fake.of(GuestStartFailed)
    assert isinstance(failed, GuestStartFailed)
    assert failed.detail == "the packages of requirements.txt could not be installed here: no such version"
    assert fake.world.preparing.all() == ()
    note = fake.run_notes.get(RUN)
    assert note is not None
    assert note.packages


class NoSuchPackages(PipPackages):
    def __init__(self, root: Path) -> None:
        super().__init__(root, limit_bytes=GIB)

    def install(
        self,
        key: str,
        wish: Wish,
        cancelled: Callable[[], bool],
        told: Callable[[float], None] = lambda done: None,
    ) -> None:
        raise PackagesFault("no such version")
