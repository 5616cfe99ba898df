"""What is done for one guest, and what is said about it afterwards."""

from __future__ import annotations

import asyncio
import errno
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.pip.installed import PipPackages
from gpunion.agent.environment import EnvironmentKeeper
from gpunion.agent.hands import GuestHands
from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.effects import AskToSave, LimitGuest, ShipCheckpoint, StartGuest
from gpunion.domain.events import (
    CheckpointNotShipped,
    CheckpointShipped,
    GuestExited,
    GuestSaved,
    GuestStarted,
    GuestStartFailed,
    OutputShipped,
)
from gpunion.domain.gang import Seat
from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.orders import StartRun
from gpunion.domain.resources import GIB
from gpunion.domain.run import EndReason
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.packages import PackagesFault, Wish
from gpunion.ports.runtime import ExitReason, RuntimeFault
from gpunion.ports.vault import (
    CheckpointTorn,
    CorruptBlock,
    JobKey,
    LocalDiskTrouble,
    OldEpoch,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
    WrongKey,
)
from tests.trees import a_tree
from tests.unit.agent.fakes import JOB, RUN, FakeWorld, a_checkpoint, a_manifest, an_order, until


@pytest.fixture
def fake(tmp_path: Path) -> FakeWorld:
    return FakeWorld(tmp_path)


def start(fake: FakeWorld, order: StartRun | None = None) -> GuestHands:
    hands = GuestHands(fake.world, RUN)
    hands.start(StartGuest(order=order or an_order(), lease_until_s=1010.0))
    return hands


async def started(fake: FakeWorld) -> GuestHands:
    hands = start(fake)
    await until(lambda: fake.of(GuestStarted))
    fake.posted.clear()
    return hands


# --- starting ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("sealed", [[], [a_manifest("c1", 10)]])
async def test_a_promised_checkpoint_that_nobody_can_read_fails_the_start(
    fake: FakeWorld, sealed: list[object]
) -> None:
    fake.vault.sealed = list(sealed)  # type: ignore[arg-type]
    fake.vault.broken["c1"] = CorruptBlock("bits rotted")
    start(fake, an_order(restore=CheckpointId("c1"), restore_step=10))
    await until(lambda: fake.of(GuestStartFailed))
    assert f"start {RUN}" not in fake.journal


async def test_an_older_epoch_than_the_vault_knows_does_not_start(fake: FakeWorld) -> None:
    fake.vault.epochs["job-1"] = 5
    start(fake)
    await until(lambda: fake.of(GuestStartFailed))
    assert f"start {RUN}" not in fake.journal


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
    note = fake.notebook.get(RUN)
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


# --- saving --------------------------------------------------------------------------------------


def ask(number: int = 1, *, final: bool = False, by_s: float | None = None) -> AskToSave:
    return AskToSave(run_id=RUN, checkpoint_id=a_checkpoint(number), final=final, by_s=by_s)


def save(fake: FakeWorld, number: int = 1, **message: object) -> None:
    control_dir = fake.runtime.paths(RUN).control_dir
    answer = {"id": a_checkpoint(number), "step": 7, "progress": 0.5, "files": ["state"], **message}
    fake.control.write_json(control_dir, "saved.json", answer)


async def test_a_program_is_asked_in_a_file_and_by_signal_and_its_answer_is_told(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(final=True, by_s=1060.0))
    await until(lambda: f"signal {RUN} {int(signal.SIGUSR1)}" in fake.journal)
    request = fake.control.read_json(fake.runtime.paths(RUN).control_dir, "request.json")
    assert request is not None
    assert (request["id"], request["final"], request["reason"]) == (a_checkpoint(1), True, "leaving")
    fake.clock.at_s += 2.0
    save(fake)
    await until(lambda: fake.posted)
    assert fake.posted == [
        GuestSaved(
            run_id=RUN, checkpoint_id=a_checkpoint(1), step=7, progress=0.5, stall_s=2.0, capture_s=2.0
        )
    ]


async def test_an_answer_to_an_earlier_request_is_not_taken_for_this_one(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(1))
    hands.ask_to_save(ask(2))
    save(fake, 1)
    await asyncio.sleep(0.15)
    assert fake.posted == []
    save(fake, 2, stall_s=0.25)
    await until(lambda: fake.posted)
    assert fake.posted == [
        GuestSaved(run_id=RUN, checkpoint_id=a_checkpoint(2), step=7, progress=0.5, stall_s=0.25)
    ]


async def test_a_program_that_saves_and_leaves_at_once_is_heard_in_that_order(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(final=True))
    save(fake)
    fake.runtime.end(RUN, 85, ExitReason.EXITED)
    await until(lambda: fake.of(GuestExited))
    assert [type(event) for event in fake.posted] == [GuestSaved, GuestExited]
    exited = fake.posted[1]
    assert isinstance(exited, GuestExited)
    assert (exited.exit_code, exited.last_step, exited.cause) == (85, 7, None)


# --- shipping ------------------------------------------------------------------------------------


def ship(number: int = 1, rate_bps: float = 0.0) -> ShipCheckpoint:
    return ShipCheckpoint(
        run_id=RUN, checkpoint_id=a_checkpoint(number), step=7, progress=0.5, rate_bps=rate_bps
    )


async def saved_guest(fake: FakeWorld) -> GuestHands:
    hands = await started(fake)
    paths = fake.runtime.paths(RUN)
    (paths.checkpoint_dir / "state").write_text("weights")
    (paths.checkpoint_dir / "half-written").write_text("no")
    (paths.output_dir / "metrics.csv").write_text("1,2")
    save(fake)
    return hands


async def test_what_the_program_named_and_its_output_so_far_become_durable(fake: FakeWorld) -> None:
    hands = await saved_guest(fake)
    hands.ship(ship())
    await until(lambda: fake.posted)
    assert fake.posted == [
        CheckpointShipped(
            run_id=RUN, checkpoint_id=a_checkpoint(1), step=7, progress=0.5, size_bytes=10, shipped_bytes=5
        )
    ]
    assert fake.vault.trees[a_checkpoint(1)] == {"checkpoint/state": "weights", "output/metrics.csv": "1,2"}
    assert list((fake.root / "spool" / RUN).iterdir()) == []


async def test_trouble_with_older_saves_makes_no_sealed_one_unsaved(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(job_id: str, keep: int) -> tuple[str, ...]:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(fake.vault, "forget", full)
    hands = await saved_guest(fake)
    hands.ship(ship())
    await until(lambda: fake.of(CheckpointShipped))


@pytest.mark.parametrize(("keep", "kept"), [(None, 3), ("c9", 3), ("c2", 5)])
async def test_what_a_gang_would_go_on_from_outlives_newer_saves(
    fake: FakeWorld, keep: str | None, kept: int
) -> None:
    hands = await saved_guest(fake)
    fake.vault.sealed = [a_manifest(f"c{number}", number) for number in (1, 2, 3, 4, 5)]
    hands.ship(replace(ship(), keep=keep))  # type: ignore[arg-type]
    await until(lambda: fake.of(CheckpointShipped))
    assert fake.vault.kept == kept


async def test_a_job_with_a_key_is_looked_for_restored_and_saved_with_it(fake: FakeWorld) -> None:
    fake.vault.sealed.append(a_manifest("c1", 10))
    hands = start(fake, an_order(restore=CheckpointId("c1"), restore_step=10, vault_key="ab" * 32))
    await until(lambda: fake.of(GuestStarted))
    save(fake, files=None)
    hands.ship(ship())
    await until(lambda: fake.of(CheckpointShipped))
    key = JobKey(job_id=JOB, secret=bytes.fromhex("ab" * 32))
    assert fake.vault.keys == [key, key, key]


async def test_another_key_ends_the_start_instead_of_beginning_anew(fake: FakeWorld) -> None:
    fake.vault.sealed.append(a_manifest("c1", 10))
    fake.vault.broken["c1"] = WrongKey("c1 was encrypted with another key")
    start(fake, an_order(vault_key="ab" * 32))
    await until(lambda: fake.of(GuestStartFailed))
    assert "another key" in str(fake.of(GuestStartFailed))
    assert f"start {RUN}" not in fake.journal


async def test_a_program_that_names_no_files_has_its_whole_directory_saved(fake: FakeWorld) -> None:
    hands = await saved_guest(fake)
    save(fake, files=None)
    hands.ship(ship())
    await until(lambda: fake.posted)
    assert "checkpoint/half-written" in fake.vault.trees[a_checkpoint(1)]


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        (OldEpoch("newer"), CheckpointTrouble.OLD_EPOCH),
        (CheckpointTorn("changed"), CheckpointTrouble.TORN),
        (VaultUnavailable("away"), CheckpointTrouble.VAULT_UNAVAILABLE),
        (LocalDiskTrouble("full"), CheckpointTrouble.VAULT_FULL),
        (VaultDenied("refused"), CheckpointTrouble.VAULT_DENIED),
    ],
)
async def test_trouble_on_the_way_is_told_by_its_name(
    fake: FakeWorld, fault: VaultFault, trouble: CheckpointTrouble
) -> None:
    hands = await saved_guest(fake)
    fake.vault.ship_fault = fault
    hands.ship(ship())
    await until(lambda: fake.posted)
    told = CheckpointNotShipped(run_id=RUN, checkpoint_id=a_checkpoint(1), trouble=trouble, detail=str(fault))
    assert fake.posted == [told]


async def test_a_full_vault_is_tidied_and_tried_once_more(fake: FakeWorld) -> None:
    hands = await saved_guest(fake)
    fake.vault.ship_fault = VaultFull("full")
    hands.ship(ship())
    await until(lambda: fake.posted)
    assert isinstance(fake.posted[0], CheckpointShipped)
    assert fake.vault.collected == 1


async def test_a_cancelled_upload_ends_and_the_next_one_takes_its_place(fake: FakeWorld) -> None:
    hands = await saved_guest(fake)
    fake.vault.gate = threading.Event()
    hands.ship(ship(1))
    await until(lambda: "begin job-1 1" in fake.journal[1:])
    hands.cancel_shipping()
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, CheckpointNotShipped)
    fake.vault.gate.set()
    hands.ship(ship(2))
    await until(lambda: fake.of(CheckpointShipped))


async def test_a_program_that_left_nothing_has_no_output(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ship_output(7)
    await until(lambda: fake.posted)
    assert fake.posted == [OutputShipped(run_id=RUN, output=None)]


async def test_the_output_is_sealed_under_the_run_s_name(fake: FakeWorld) -> None:
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    hands.ship_output(7)
    await until(lambda: fake.posted)
    assert fake.posted == [OutputShipped(run_id=RUN, output=CheckpointId(f"{RUN}-output"))]
    assert fake.vault.trees[f"{RUN}-output"] == {"weights": "done"}


async def test_an_output_that_cannot_be_saved_is_told_with_the_reason(fake: FakeWorld) -> None:
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.epochs["job-1"] = 9
    hands.ship_output(7)
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, OutputShipped)
    assert "could not be saved" in event.detail


async def test_shipping_for_a_guest_nobody_knows_is_trouble_and_no_crash(fake: FakeWorld) -> None:
    hands = GuestHands(fake.world, RUN)
    hands.ship(ship())
    hands.ship_output(0)
    assert [type(event).__name__ for event in fake.posted] == ["CheckpointNotShipped", "OutputShipped"]


# --- going ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (ExitReason.EXITED, None),
        (ExitReason.SIGNALLED, None),
        (ExitReason.OUT_OF_MEMORY, None),
        (ExitReason.KILLED_BY_OWNER, EndReason.KILLED_BY_OWNER),
        (ExitReason.LEASE_ENDED, EndReason.LEASE_ENDED),
        (ExitReason.DEADLINE, EndReason.DEADLINE),
        (ExitReason.LOST, EndReason.GUEST_LOST),
        (ExitReason.NOT_STARTED, EndReason.START_FAILED),
    ],
)
async def test_who_ended_a_guest_is_told(
    fake: FakeWorld, reason: ExitReason, cause: EndReason | None
) -> None:
    await started(fake)
    fake.runtime.end(RUN, 137, reason)
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert event.cause is cause


async def test_a_program_that_saved_for_the_last_time_may_leave_by_itself(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.kill(EndReason.SAVED)
    fake.runtime.end(RUN, 85, ExitReason.EXITED)
    await until(lambda: fake.posted)
    await hands.remove()
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert (event.exit_code, event.cause) == (85, None)
    assert f"kill {RUN} stopped" not in fake.journal


async def test_a_program_that_stays_after_its_last_save_is_ended_and_the_owner_s_kill_does_not_wait(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunion.agent.hands.LEAVE_S", 3600.0)
    hands = await started(fake)
    hands.kill(EndReason.SAVED)
    await asyncio.sleep(0)
    assert not fake.of(GuestExited)
    hands.kill(EndReason.KILLED_BY_OWNER)
    await until(lambda: fake.of(GuestExited))
    assert f"kill {RUN} killed_by_owner" in fake.journal


async def test_a_killed_guest_s_end_names_the_cause_it_was_killed_for(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunion.agent.hands.LEAVE_S", 0.0)
    hands = await started(fake)
    hands.kill(EndReason.SAVED)
    await until(lambda: fake.posted)
    await hands.remove()
    [event] = fake.posted
    assert isinstance(event, GuestExited)
    assert event.cause is EndReason.SAVED
    assert f"kill {RUN} stopped" in fake.journal


async def test_ending_is_tried_until_nothing_lives(fake: FakeWorld) -> None:
    hands = await started(fake)
    fake.runtime.kill_faults = 1
    hands.kill(EndReason.KILLED_BY_OWNER)
    await until(lambda: fake.posted)
    assert fake.journal.count(f"kill {RUN} killed_by_owner") == 2


async def test_a_notice_is_left_for_the_program_and_taken_back(fake: FakeWorld) -> None:
    hands = await started(fake)
    control_dir = fake.runtime.paths(RUN).control_dir
    hands.notice(1060.0)
    await until(lambda: fake.control.read_json(control_dir, "notice.json"))
    assert (fake.control.read_json(control_dir, "notice.json") or {})["gpus"] == [0]
    hands.notice(None)
    await until(lambda: fake.control.read_json(control_dir, "notice.json") is None)


async def test_asking_a_running_program_to_go_is_a_signal(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.terminate()
    await until(lambda: f"signal {RUN} {int(signal.SIGTERM)}" in fake.journal)


async def test_removing_leaves_nothing_and_may_be_repeated(fake: FakeWorld) -> None:
    hands = await started(fake)
    fake.runtime.end(RUN, 0, ExitReason.EXITED)
    await until(lambda: fake.posted)
    await hands.remove()
    await hands.remove()
    assert fake.notebook.get(RUN) is None
    assert not (fake.root / "spool" / RUN).exists()
    assert list((fake.root / "runs").iterdir()) == []


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
    note = fake.notebook.get(RUN)
    assert note is not None
    assert note.packages


class NoSuchPackages(PipPackages):
    def __init__(self, root: Path) -> None:
        super().__init__(root, limit_bytes=GIB)

    def install(self, key: str, wish: Wish, cancelled: Callable[[], bool]) -> None:
        raise PackagesFault("no such version")
