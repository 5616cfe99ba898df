"""What a guest saved or made gets out, or it is said why not."""

from __future__ import annotations

import errno
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.checkpoints import shipping
from gpunion.agent.guests.controller import GuestHands
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.protocol.events import (
    CheckpointNotShipped,
    CheckpointShipped,
    GuestStarted,
    OutputShipped,
)
from gpunion.vault.manifest import (
    BadManifest,
    CheckpointTorn,
    JobKey,
    LocalDiskTrouble,
    OldEpoch,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)
from gpunion.vault.transfer.snapshot import OUTPUT_DEPTH_MAX, make_readable
from tests.builders.memory_vault import a_manifest
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import save, saved_guest, ship, start, started
from tests.unit.agent.values import JOB, RUN, a_checkpoint, an_order


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


@pytest.mark.parametrize(("keep", "kept"), [(None, 3), ("c9", 6), ("c2", 5)])
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
        (BadManifest("a link that leads outside"), CheckpointTrouble.UNFIT),
        (VaultUnavailable("away"), CheckpointTrouble.VAULT_UNAVAILABLE),
        (LocalDiskTrouble("full", no_room=True), CheckpointTrouble.DISK_FULL),
        (LocalDiskTrouble("broken"), CheckpointTrouble.DISK_FAILED),
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


async def test_links_that_lead_outside_cost_nobody_the_rest_of_an_output(fake: FakeWorld) -> None:
    hands = await started(fake)
    output = fake.runtime.paths(RUN).output_dir
    (output / "weights").write_text("done")
    (output / "data").symlink_to("/data/set")
    hands.ship_output(7)
    await until(lambda: fake.posted)
    left_out = "left out of its output, being links that lead outside of it: data"
    told = OutputShipped(run_id=RUN, output=CheckpointId(f"{RUN}-output"), left_out=left_out)
    assert fake.posted == [told]
    assert fake.vault.trees[f"{RUN}-output"] == {"weights": "done"}


async def test_what_was_written_outside_of_the_output_folder_is_told_with_what_would_have_kept_it(
    fake: FakeWorld,
) -> None:
    work = fake.runtime.paths(RUN).work_dir
    work.mkdir(parents=True)
    (work / "train.py").write_text("it travelled with the job")
    os.utime(work / "train.py", (1, 1))
    hands = await started(fake)
    (work / "__pycache__").mkdir()
    for name in ("weights", "__pycache__/train.pyc"):
        (work / name).write_text("made by it")
        os.utime(work / name, (2**32, 2**32))
    hands.ship_output(7)
    await until(lambda: fake.posted)
    [told] = [event for event in fake.posted if isinstance(event, OutputShipped)]
    assert told.left_out.startswith(
        "not kept, as it was written outside of GPUNION_OUTPUT_DIR: weights (10 b"
    )
    assert "'$GPUNION_OUTPUT_DIR', in single quotes" in told.left_out


async def test_an_output_that_nobody_can_walk_through_is_hopeless(fake: FakeWorld) -> None:
    hands = await started(fake)
    deepest = fake.runtime.paths(RUN).output_dir.joinpath(*["d"] * (OUTPUT_DEPTH_MAX + 1))
    deepest.mkdir(parents=True)
    hands.ship_output(7)
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, OutputShipped)
    assert event.hopeless
    assert "nested more than 256 deep" in event.detail


def as_its_mode_says(path: Path) -> bool:
    """What an agent may read that is not root: tests may be."""
    mode = path.stat(follow_symlinks=False).st_mode
    wanted = 0o500 if path.is_dir() else 0o400
    return mode & wanted == wanted


def a_locked_output(folder: Path) -> list[Path]:
    (folder / "runs").mkdir(parents=True)
    (folder / "runs" / "weights").write_text("done")
    (folder / "elsewhere").symlink_to(folder / "runs" / "weights")
    locked = [folder / "runs" / "weights", folder / "runs", folder]
    for path in locked:
        path.chmod(0)
    return locked


def test_what_a_program_left_without_leave_to_read_it_is_kept_all_the_same(tmp_path: Path) -> None:
    locked = a_locked_output(tmp_path / "output")
    make_readable(tmp_path / "output", as_its_mode_says)
    assert [stat.S_IMODE(path.stat().st_mode) for path in locked] == [0o400, 0o500, 0o500]


async def test_an_output_that_is_not_the_agents_to_open_is_hopeless_and_named(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_ours(path: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    (fake.runtime.paths(RUN).output_dir / "weights").chmod(0)
    monkeypatch.setattr(os, "access", lambda path, mode: as_its_mode_says(Path(path)))
    monkeypatch.setattr(Path, "chmod", not_ours)
    hands.ship_output(7)
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, OutputShipped)
    assert event.hopeless
    assert "weights cannot be read (----------, of user" in event.detail


async def test_an_output_that_no_vault_takes_is_hopeless(fake: FakeWorld) -> None:
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.ship_fault = BadManifest("too deep")
    hands.ship_output(7)
    await until(lambda: fake.posted)
    detail = "its output could not be saved: too deep"
    assert fake.posted == [OutputShipped(run_id=RUN, output=None, detail=detail, hopeless=True)]


async def test_an_output_that_cannot_be_saved_is_told_with_the_reason(fake: FakeWorld) -> None:
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.epochs["job-1"] = 9
    hands.ship_output(7)
    await until(lambda: fake.posted)
    [event] = fake.posted
    assert isinstance(event, OutputShipped)
    assert "could not be saved" in event.detail


async def test_an_output_waits_for_a_vault_that_is_away(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "OUTPUT_WAIT_MAX_S", 0.001)
    monkeypatch.setattr(shipping, "OUTPUT_WAIT_S", 0.001)
    begin, away = fake.vault.begin, [VaultUnavailable("the vault is being moved")] * 20

    def begin_in_the_end(job_id: str, epoch: int) -> None:
        if away:
            raise away.pop()
        begin(job_id, epoch)

    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    monkeypatch.setattr(fake.vault, "begin", begin_in_the_end)
    hands.ship_output(7)
    await until(lambda: fake.posted)
    assert fake.posted == [OutputShipped(run_id=RUN, output=CheckpointId(f"{RUN}-output"))]


async def test_an_output_does_not_wait_for_ever(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "OUTPUT_PATIENCE_S", 0.0)
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.ship_fault = VaultUnavailable("the vault is gone")
    hands.ship_output(7)
    await until(lambda: fake.posted)
    detail = "its output could not be saved: the vault is gone"
    assert fake.posted == [OutputShipped(run_id=RUN, output=None, detail=detail)]


async def test_room_for_an_output_is_not_made_of_what_its_job_might_go_back_to(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "OUTPUT_PATIENCE_S", 0.0)
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.sealed = [a_manifest(f"c{number}", number) for number in (1, 2, 3, 4, 5, 6)]
    fake.vault.ship_fault = VaultFull("no space left")
    hands.ship_output(7, CheckpointId("c2"))
    await until(lambda: fake.of(OutputShipped))
    assert fake.vault.kept == 5


async def test_shipping_for_a_guest_nobody_knows_is_trouble_and_no_crash(fake: FakeWorld) -> None:
    hands = GuestHands(fake.world, RUN)
    hands.ship(ship())
    hands.ship_output(0)
    assert [type(event).__name__ for event in fake.posted] == ["CheckpointNotShipped", "OutputShipped"]
