"""What a program says of its piece of a job: how much of it is believed, and what the driver adds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.adapters.runtimes.keeper import control_files
from gpunion.agent.effects import Performer
from gpunion.agent.link.log_upload import LogPusher
from gpunion.agent.metrics.guest_gpus import GpuUse
from gpunion.agent.program.messages import PIECE_FILE
from gpunion.agent.program.piece import BETWEEN_LOOKS, seen_of, variables_of
from gpunion.agent.run_records.notes import RunNote, note_of, record_of
from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.profile import Profile, Seen
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.protocol.events import GuestExited
from gpunion.limits import SIZE_MAX_BYTES, STEP_MAX
from gpunion.policy.windows import calibration, sizing
from gpunion.ports.runtime import ExitReason, GuestPaths
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import started
from tests.unit.agent.values import RUN, an_order

WINDOW = Subjob(ends_s=None, hard=False, end=WindowEnd.OPEN)
HONEST = {
    "steps": 40,
    "step_s": 0.5,
    "step_sd_s": 0.1,
    "worst_step_s": 0.9,
    "begin_s": 4.0,
    "save_s": 1.5,
    "peak_bytes": 1000,
    "short_of_memory": False,
}
SAID = Seen(
    steps=40, step_s=0.5, step_sd_s=0.1, worst_step_s=0.9, begin_s=4.0, save_s=1.5, peak_bytes=1000
)  # fmt: skip


def a_note(root: Path, *, counts_seconds: bool = False) -> RunNote:
    places = dict.fromkeys(("checkpoint_dir", "output_dir", "scratch_dir", "log_file"), root)
    return RunNote(
        run_id=RunId("job-1-e1"),
        job_id=JobId("job-1"),
        epoch=1,
        gpu_indices=(0,),
        since_unix_s=0.0,
        paths=GuestPaths(root=root, control_dir=root, **places),
        in_windows=True,
        counts_seconds=counts_seconds,
    )


def heard(root: Path, here_s: float = 100.0, **said: object) -> Seen:
    (root / PIECE_FILE).write_text(json.dumps(said))
    return seen_of(control_files, a_note(root), here_s, None)


def test_an_honest_program_is_believed(tmp_path: Path) -> None:
    assert heard(tmp_path, **HONEST) == SAID


def test_no_more_steps_were_timed_than_the_time_allows(tmp_path: Path) -> None:
    seen = heard(tmp_path, here_s=10.0, **HONEST | {"steps": 10**9, "worst_step_s": 1e9, "begin_s": 1e9})
    assert (seen.steps, seen.worst_step_s, seen.begin_s) == (20, 10.0, 10.0)
    assert heard(tmp_path, here_s=0.0, **HONEST).steps == 0


NUMBERS: st.SearchStrategy[object] = st.one_of(
    st.floats(), st.integers(), st.sampled_from([10**400, -(10**400), None, True, "7", [], {}])
)


@pytest.mark.parametrize("step_s", [1e-310, 1e-305, 1e-12, -1.0])
def test_steps_that_take_no_time_were_not_timed(tmp_path: Path, step_s: float) -> None:
    assert heard(tmp_path, steps=5, step_s=step_s, peak_bytes=7) == Seen(peak_bytes=7)


@given(st.dictionaries(st.sampled_from([*HONEST, "more"]), NUMBERS))
def test_whatever_it_says_is_within_bounds_and_can_be_reckoned_with(said: dict[str, object]) -> None:
    class Control:
        def read_json(self, directory: Path, name: str) -> dict[str, object] | None:
            return said

    seen = seen_of(Control(), a_note(Path()), 1000.0, None)  # type: ignore[arg-type]
    assert 0 <= seen.steps <= STEP_MAX
    assert 0 <= seen.peak_bytes <= SIZE_MAX_BYTES
    for each_s in (seen.step_s, seen.step_sd_s, seen.worst_step_s, seen.begin_s or 0.0, seen.save_s or 0.0):
        assert 0.0 <= each_s <= 1000.0
    assert seen.steps * seen.step_s <= 1000.0 * (1 + 1e-9)
    profile = calibration.learned(Profile(), seen, 1.0)
    assert profile.step_s * profile.steps < float("inf")
    assert sizing.quantile_bytes([*profile.peaks_bytes, 1]) >= 0


@pytest.mark.parametrize("garbage", ["", "[]", "{", "[" * 100_000, '{"steps": 1e999}', "null"])
def test_garbage_is_nothing_said(tmp_path: Path, garbage: str) -> None:
    (tmp_path / PIECE_FILE).write_text(garbage)
    assert seen_of(control_files, a_note(tmp_path), 100.0, None) == Seen()


def test_one_that_is_saved_from_outside_has_seconds_for_steps_and_the_drivers_memory(tmp_path: Path) -> None:
    used = GpuUse(memory_bytes=1000)
    seen = seen_of(control_files, a_note(tmp_path, counts_seconds=True), 42.7, used)
    assert seen == Seen(steps=42, step_s=1.0, worst_step_s=1.0, peak_bytes=int(BETWEEN_LOOKS * 1000))
    # A driver that hangs has told nothing.
    assert seen_of(control_files, a_note(tmp_path, counts_seconds=True), 42.7, None).peak_bytes == 0


def test_of_program_and_driver_the_larger_word_on_memory_counts(tmp_path: Path) -> None:
    (tmp_path / PIECE_FILE).write_text(json.dumps(HONEST))
    note = a_note(tmp_path)
    assert seen_of(control_files, note, 100.0, GpuUse(memory_bytes=5000)).peak_bytes == 5000
    assert seen_of(control_files, note, 100.0, GpuUse(memory_bytes=7)).peak_bytes == 1000


def test_a_program_is_told_of_its_windows_when_it_begins(tmp_path: Path) -> None:
    assert variables_of(None) == {}
    assert variables_of(WINDOW) == {"GPUNION_WINDOWS": "1", "GPUNION_SAFE_EVERY": "1"}
    less = Subjob(ends_s=None, hard=False, end=WindowEnd.OPEN, safe_every=8, limit_bytes=123)
    assert variables_of(less)["GPUNION_GPU_MEMORY_BYTES"] == "123"
    assert variables_of(less)["GPUNION_SAFE_EVERY"] == "8"


def test_a_restarted_agent_still_knows(tmp_path: Path) -> None:
    note = a_note(tmp_path, counts_seconds=True)
    assert note_of(record_of(note)) == note


async def test_what_was_seen_goes_with_the_end_of_a_job_that_runs_in_windows(fake: FakeWorld) -> None:
    hands = await started(fake, an_order(subjob=WINDOW))
    assert fake.runtime.environment["GPUNION_WINDOWS"] == "1"
    control_dir = fake.runtime.paths(RUN).control_dir
    fake.control.write_json(control_dir, PIECE_FILE, {"steps": 1, "step_s": 0.0, "peak_bytes": 77})
    fake.runtime.end(RUN, 0, ExitReason.EXITED)
    await until(lambda: fake.of(GuestExited))
    [exited] = fake.of(GuestExited)
    assert isinstance(exited, GuestExited)
    assert exited.seen == Seen(peak_bytes=77)
    assert hands.gone


class Unreadable:
    """A way to a guest's files with a bug that nobody knows of yet."""

    def read_json(self, directory: Path, name: str) -> dict[str, object] | None:
        if name == PIECE_FILE:
            raise OverflowError("cannot convert float infinity to integer")
        return control_files.read_json(directory, name)

    write_json = staticmethod(control_files.write_json)
    delete = staticmethod(control_files.delete)


async def test_whatever_it_wrote_its_end_is_told_and_the_next_agent_starts(fake: FakeWorld) -> None:
    fake.world = replace(fake.world, control=Unreadable())
    await started(fake, an_order(subjob=WINDOW))
    fake.runtime.end(RUN, 0, ExitReason.EXITED)
    await until(lambda: fake.of(GuestExited))
    [exited] = fake.of(GuestExited)
    assert isinstance(exited, GuestExited)
    assert exited.seen is None
    logs = LogPusher(fake.link, fake.root / "logs")
    [found] = await Performer(fake.world, logs).find()
    assert (found.run_id, found.alive, found.seen) == (RUN, False, None)


async def test_of_any_other_job_nothing_is_told(fake: FakeWorld) -> None:
    await started(fake)
    assert not any(name.startswith("GPUNION_WINDOWS") for name in fake.runtime.environment)
    control_dir = fake.runtime.paths(RUN).control_dir
    fake.control.write_json(control_dir, PIECE_FILE, dict(HONEST))
    fake.runtime.end(RUN, 0, ExitReason.EXITED)
    await until(lambda: fake.of(GuestExited))
    [exited] = fake.of(GuestExited)
    assert isinstance(exited, GuestExited)
    assert exited.seen is None
