"""What every memory of an agent must do, tried on the one there is."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from gpunion.adapters.agentdisk import JsonAgentDisk
from gpunion.adapters.agentdisk.saved_agent import Unreadable, from_text, to_text
from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, Holding, JobEpoch, OwnerState, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.commit import NumberedReport, SavedAgent
from gpunion.domain.protocol.reports import CheckpointFailed, NodePaused, NoticeGiven
from gpunion.domain.protocol.timers import Deadline, LeaseOver, WholeMachine
from gpunion.domain.resources import Grant
from gpunion.ports.agent_disk import DiskFault

RUN, JOB = RunId("job-1-e2"), JobId("job-1")


DEADLINE = Deadline(of=WholeMachine())


def a_state(**changes: object) -> SavedAgent:
    guest = Guest(
        run_id=RUN,
        job_id=JOB,
        epoch=2,
        grant=Grant(gpu_indices=(0, 1), cpus=1.5, memory_bytes=2**30),
        phase=GuestPhase.ENDING,
        saving=Saving(
            checkpoint_id=CheckpointId("job-1-e2-c1"), final=True, rate_bps=1e6, saved=True, step=7
        ),
        end_cause=EndReason.DEADLINE,
        last_step=9,
    )
    failed = CheckpointFailed(
        run_id=RUN, job_id=JOB, epoch=2, checkpoint_id=CheckpointId("c"), trouble=CheckpointTrouble.TORN
    )
    fields: dict[str, object] = {
        "incarnation": "abc",
        "records": (
            guest,
            JobEpoch(job_id=JOB, epoch=2),
            Holding(owner_state=OwnerState.RECLAIMING, asked_s=100.0, deadline_s=160.0),
        ),
        "timers": ((DEADLINE, 160.0), (LeaseOver(), 140.5)),
        "reports": (
            NumberedReport(seq=4, report=NoticeGiven(deadline_s=160.0)),
            NumberedReport(seq=5, report=failed),
            NumberedReport(seq=6, report=NodePaused()),
        ),
        "last_report_seq": 6,
        "order_seq": 3,
        **changes,
    }
    return SavedAgent(**fields)  # type: ignore[arg-type]


@pytest.fixture
def disk(tmp_path: Path) -> JsonAgentDisk:
    return JsonAgentDisk(tmp_path / "agent")


def test_what_was_written_is_read_back_whole(disk: JsonAgentDisk) -> None:
    disk.load(0.0)
    disk.write(a_state())
    assert disk.load(0.0).saved == a_state()


def test_the_last_write_counts(disk: JsonAgentDisk) -> None:
    disk.load(0.0)
    disk.write(a_state())
    disk.write(a_state(order_seq=4))
    assert disk.load(0.0).saved == a_state(order_seq=4)


def test_a_first_start_remembers_nothing_and_shares(disk: JsonAgentDisk) -> None:
    first, again = disk.load(0.0), disk.load(0.0)
    assert first.saved.records == ()
    assert first.forgot == ""
    assert first.saved.incarnation != again.saved.incarnation


def test_a_write_that_was_cut_short_leaves_the_one_before(disk: JsonAgentDisk, tmp_path: Path) -> None:
    disk.load(0.0)
    disk.write(a_state())
    (tmp_path / "agent" / "state.json.77.tmp").write_text('{"gpunion_agent": 1')
    assert disk.load(0.0).saved == a_state()
    assert sorted(path.name for path in (tmp_path / "agent").iterdir()) == ["reserve", "state.json"]


def test_on_a_full_disk_there_is_still_room_for_what_happened(tmp_path: Path) -> None:
    folder = tmp_path / "agent"

    class AlmostFull(JsonAgentDisk):
        """Guests have taken all that nobody holds."""

        def _write(self, text: str) -> None:
            held = folder / "reserve"
            if held.exists() and held.stat().st_size >= len(text):
                raise OSError(errno.ENOSPC, "No space left on device")
            super()._write(text)

    disk = AlmostFull(folder)
    disk.load(0.0)
    disk.write(a_state())
    assert disk.load(0.0).saved == a_state()


def test_what_a_quota_has_left_is_not_eaten_up_by_a_reserve_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_the_quota_ends(path: Path, data: bytes) -> int:
        with open(path, "wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(Path, "write_bytes", until_the_quota_ends)
    disk = JsonAgentDisk(tmp_path / "agent")
    disk.load(0.0)
    disk.write(a_state())
    assert [path.name for path in (tmp_path / "agent").iterdir()] == ["state.json"]


def test_a_disk_that_takes_nothing_at_all_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    class Full(JsonAgentDisk):
        full = False

        def _write(self, text: str) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            super()._write(text)

    disk = Full(tmp_path / "agent")
    disk.load(0.0)
    disk.write(a_state())
    disk.full = True
    with pytest.raises(DiskFault, match="No space left") as fault:
        disk.write(a_state(order_seq=4))
    assert fault.value.no_room
    assert disk.load(0.0).saved == a_state()


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_torn_file_is_kept_aside_and_nothing_of_it_is_believed(
    disk: JsonAgentDisk, tmp_path: Path, kept: float
) -> None:
    disk.load(0.0)
    disk.write(a_state())
    path = tmp_path / "agent" / "state.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    remembered = disk.load(0.0)
    assert remembered.saved.records == (Holding(owner_state=OwnerState.PAUSED),)
    assert remembered.saved.incarnation != "abc"
    assert "gpunion resume" in remembered.forgot
    [aside] = path.parent.glob("state.json.unreadable-*")
    assert aside.read_bytes() == whole[: int(len(whole) * kept)]


@pytest.mark.parametrize(
    "damage", [(b'"epoch":2', b'"epoch":9'), (b"GuestX", b""), (b"{", b"\xff"), (b"\n", b"")]
)
def test_a_damaged_file_is_noticed(disk: JsonAgentDisk, tmp_path: Path, damage: tuple[bytes, bytes]) -> None:
    disk.load(0.0)
    disk.write(a_state())
    path = tmp_path / "agent" / "state.json"
    path.write_bytes(path.read_bytes().replace(*damage) if damage[1] else b"[]\n" + path.read_bytes())
    assert disk.load(0.0).forgot


def test_a_timer_nobody_knows_is_a_fault_that_names_it() -> None:
    header, body, _ = to_text(a_state(), "boot").split("\n")
    body = body.replace('"lease"', '"tea"')
    header = header.replace(json.loads(header)["sha256"], hashlib.sha256(body.encode()).hexdigest())
    with pytest.raises(Unreadable, match="'tea'"):
        from_text(f"{header}\n{body}\n")


def test_a_newer_version_s_memory_is_left_alone(disk: JsonAgentDisk, tmp_path: Path) -> None:
    disk.load(0.0)
    disk.write(a_state())
    path = tmp_path / "agent" / "state.json"
    path.write_text(path.read_text().replace('"gpunion_agent": 1', '"gpunion_agent": 2'))
    with pytest.raises(DiskFault, match="newer GPUnion"):
        disk.load(0.0)
    assert path.exists()


def test_after_a_reboot_every_moment_counts_as_come(tmp_path: Path) -> None:
    before = JsonAgentDisk(tmp_path / "agent", boot=lambda: "one")
    before.load(0.0)
    before.write(a_state())
    assert not before.load(0.0).rebooted
    remembered = JsonAgentDisk(tmp_path / "agent", boot=lambda: "two").load(5.0)
    saved = remembered.saved
    assert remembered.rebooted
    assert saved.timers == ((DEADLINE, 5.0), (LeaseOver(), 5.0))
    assert Holding(owner_state=OwnerState.RECLAIMING, asked_s=5.0, deadline_s=5.0) in saved.records
    assert saved.incarnation == "abc"
    assert saved.reports == a_state().reports


def test_a_disk_that_will_not_take_it_is_a_fault_and_the_old_state_stays(
    disk: JsonAgentDisk, tmp_path: Path
) -> None:
    disk.load(0.0)
    disk.write(a_state())
    (tmp_path / "agent" / f"state.json.{os.getpid()}.tmp").mkdir()
    with pytest.raises(DiskFault, match="cannot be written") as fault:
        disk.write(a_state(order_seq=9))
    assert not fault.value.no_room
    (tmp_path / "agent" / f"state.json.{os.getpid()}.tmp").rmdir()
    assert disk.load(0.0).saved == a_state()


def test_others_cannot_read_the_memory(disk: JsonAgentDisk, tmp_path: Path) -> None:
    disk.load(0.0)
    disk.write(a_state())
    assert (tmp_path / "agent" / "state.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "agent").stat().st_mode & 0o077 == 0
