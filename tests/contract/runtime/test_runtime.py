"""What an agent may rely on, whichever runtime its guests have."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from gpunion.domain.resources import MIB
from gpunion.owner_kill import kill_all, lift_kill
from gpunion.ports.runtime import ExitReason, GuestStatus, RuntimeFault
from tests.contract.runtime.conftest import Campus, eventually
from tests.real_machine import now_s, processes_with


def ended(reason: ExitReason, code: int | None, run_id: str = "job-1-e1") -> GuestStatus:
    return GuestStatus(
        run_id=run_id, job_id="job-1", epoch=1, alive=False, exit_code=code, exit_reason=reason
    )


async def test_a_guest_that_ends_by_itself_tells_its_exit_code(campus: Campus) -> None:
    await campus.started("exits with 3")
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.EXITED, 3)


async def test_a_guest_that_dies_of_a_signal_says_so(campus: Campus) -> None:
    await campus.started("ends by a signal")
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.SIGNALLED, 128 + signal.SIGTERM)


async def test_a_program_that_is_not_there_ends_with_127(campus: Campus) -> None:
    await campus.started("is not there")
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.EXITED, 127)


async def test_what_a_guest_took_of_its_host_is_told_at_its_end(campus: Campus) -> None:
    await campus.started("works")
    status = await campus.runtime.wait_exit("job-1-e1")
    assert status.used is not None
    assert 64 * MIB <= status.used.memory_bytes < 512 * MIB
    assert 0.4 <= status.used.cpu_s < 60.0
    assert status.used.for_s >= 2.5
    again = await campus.reopen().status("job-1-e1")
    assert again is not None
    assert again.used == status.used


async def test_a_running_guest_is_alive_without_an_exit(campus: Campus) -> None:
    await campus.started("runs on")
    status = await campus.runtime.status("job-1-e1")
    assert status is not None
    assert (status.alive, status.exit_code, status.exit_reason) == (True, None, None)


async def test_prepare_again_gives_the_same_paths_and_touches_nothing(campus: Campus) -> None:
    spec = campus.guest("runs on")
    paths = await campus.runtime.prepare(spec)
    (paths.checkpoint_dir / "restored").write_text("kept")
    assert await campus.reopen().prepare(spec) == paths
    assert (paths.checkpoint_dir / "restored").read_text() == "kept"


async def test_another_spec_under_a_known_run_is_refused_for_good(campus: Campus) -> None:
    await campus.runtime.prepare(campus.guest("runs on"))
    with pytest.raises(RuntimeFault) as fault:
        await campus.runtime.prepare(campus.guest("runs on", epoch=2))
    assert not fault.value.temporary


@pytest.mark.parametrize("run_id", ["../escape", "", "a/b", ".hidden", "x" * 200])
async def test_a_run_id_that_could_leave_the_state_directory_is_refused(campus: Campus, run_id: str) -> None:
    with pytest.raises(RuntimeFault):
        await campus.runtime.prepare(campus.guest("runs on", run_id=run_id))


async def test_a_prepared_guest_is_neither_alive_nor_ended(campus: Campus) -> None:
    await campus.runtime.prepare(campus.guest("runs on"))
    status = await campus.runtime.status("job-1-e1")
    assert status is not None
    assert (status.alive, status.exit_reason) == (False, None)


async def test_a_run_starts_at_most_once_however_often_it_is_asked(campus: Campus) -> None:
    spec = await campus.started("leaves a line")
    await asyncio.gather(
        *(runtime.start(spec) for runtime in (campus.runtime, campus.reopen(), campus.reopen()))
    )
    await campus.runtime.wait_exit(spec.run_id)
    await campus.runtime.start(spec)
    paths = await campus.runtime.prepare(spec)
    assert (paths.output_dir / "lines").read_text() == "once\n"


async def test_racing_starts_of_one_run_make_one_guest(campus: Campus) -> None:
    spec = campus.guest("leaves a line")
    await campus.runtime.prepare(spec)
    await asyncio.gather(*(campus.reopen().start(spec) for _ in range(4)))
    await campus.runtime.wait_exit(spec.run_id)
    paths = await campus.runtime.prepare(spec)
    assert (paths.output_dir / "lines").read_text() == "once\n"


async def test_a_killed_guest_keeps_the_first_reason(campus: Campus) -> None:
    await campus.started("runs on")
    first = await campus.runtime.kill("job-1-e1", ExitReason.DEADLINE)
    assert first == ended(ExitReason.DEADLINE, 137)
    assert await campus.runtime.kill("job-1-e1", ExitReason.STOPPED) == first
    assert await campus.reopen().status("job-1-e1") == first


async def test_killing_a_guest_that_has_ended_keeps_its_own_end(campus: Campus) -> None:
    await campus.started("exits with 3")
    await campus.runtime.wait_exit("job-1-e1")
    assert await campus.runtime.kill("job-1-e1", ExitReason.STOPPED) == ended(ExitReason.EXITED, 3)


async def test_a_prepared_guest_that_is_killed_never_starts(campus: Campus) -> None:
    spec = campus.guest("leaves a line")
    paths = await campus.runtime.prepare(spec)
    assert await campus.runtime.kill(spec.run_id, ExitReason.STOPPED) == ended(ExitReason.STOPPED, None)
    await campus.runtime.start(spec)
    assert await campus.runtime.wait_exit(spec.run_id) == ended(ExitReason.STOPPED, None)
    assert not (paths.output_dir / "lines").exists()


async def test_kill_ends_processes_that_double_fork_leave_the_session_and_ignore_signals(
    campus: Campus,
) -> None:
    spec = await campus.started("hides")
    paths = await campus.runtime.prepare(spec)
    await eventually((paths.output_dir / "hidden").exists)
    assert len(processes_with(str(campus.state_dir))) >= 2
    await campus.runtime.kill(spec.run_id, ExitReason.STOPPED)
    assert processes_with(str(campus.state_dir)) == []


async def test_what_a_guest_leaves_behind_when_it_ends_goes_with_it(campus: Campus) -> None:
    spec = await campus.started("hides", then="leave")
    assert await campus.runtime.wait_exit(spec.run_id) == ended(ExitReason.EXITED, 0)
    assert processes_with(str(campus.state_dir)) == []


async def test_a_guest_ends_when_its_lease_does(campus: Campus) -> None:
    await campus.started("runs on")
    await campus.runtime.limit("job-1-e1", now_s() + 0.1, now_s() + 100_000.0)
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.LEASE_ENDED, 137)


async def test_a_guest_ends_at_the_owners_deadline_whatever_its_lease(campus: Campus) -> None:
    await campus.started("runs on")
    await campus.runtime.limit("job-1-e1", now_s() + 100_000.0, now_s() + 0.1)
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.DEADLINE, 137)


async def test_a_limit_set_before_the_start_counts(campus: Campus) -> None:
    spec = campus.guest("runs on")
    await campus.runtime.prepare(spec)
    await campus.runtime.limit(spec.run_id, now_s(), None)
    await campus.runtime.start(spec)
    assert await campus.runtime.wait_exit(spec.run_id) == ended(ExitReason.LEASE_ENDED, 137)


async def test_the_last_limit_counts(campus: Campus) -> None:
    await campus.started("runs on")
    await campus.runtime.limit("job-1-e1", now_s() + 100_000.0, now_s() + 100_000.0)
    await campus.runtime.limit("job-1-e1", now_s() + 100_000.0, now_s())
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.DEADLINE, 137)


async def test_a_second_runtime_adopts_ends_and_removes_the_firsts_guests(campus: Campus) -> None:
    await campus.started("runs on", run_id="job-1-e1")
    await campus.started("exits with 3", run_id="job-1-e2")
    await campus.runtime.wait_exit("job-1-e2")
    second = campus.reopen()
    assert [(guest.run_id, guest.alive) for guest in await second.guests()] == [
        ("job-1-e1", True),
        ("job-1-e2", False),
    ]
    assert await second.kill("job-1-e1", ExitReason.STOPPED) == ended(ExitReason.STOPPED, 137)
    await second.remove("job-1-e1")
    await second.remove("job-1-e2")
    assert await campus.runtime.guests() == ()


async def test_a_request_signal_reaches_the_program_that_listens_and_spares_its_shell(campus: Campus) -> None:
    spec = await campus.started("listens for SIGUSR1")
    paths = await campus.runtime.prepare(spec)
    await eventually((paths.output_dir / "listening").exists)
    await campus.runtime.signal(spec.run_id, signal.SIGUSR1)
    assert await campus.runtime.wait_exit(spec.run_id) == ended(ExitReason.EXITED, 7)


async def test_a_request_signal_does_not_end_a_program_that_does_not_listen(campus: Campus) -> None:
    await campus.started("runs on")
    await campus.runtime.signal("job-1-e1", signal.SIGUSR1)
    await campus.runtime.signal("job-1-e1", signal.SIGTERM)
    assert await campus.runtime.wait_exit("job-1-e1") == ended(ExitReason.SIGNALLED, 128 + signal.SIGTERM)


async def test_a_signal_to_an_ended_guest_is_nothing(campus: Campus) -> None:
    await campus.started("exits with 3")
    await campus.runtime.wait_exit("job-1-e1")
    await campus.runtime.signal("job-1-e1", signal.SIGTERM)


async def test_the_guests_code_is_in_its_working_directory(campus: Campus, tmp_path: Path) -> None:
    source = tmp_path / "code"
    source.mkdir()
    (source / "code.txt").write_text("hello")
    spec = await campus.started("reads its code", work_source=str(source))
    await campus.runtime.wait_exit(spec.run_id)
    paths = await campus.runtime.prepare(spec)
    assert (paths.output_dir / "seen").read_text() == "hello"


async def test_the_packages_of_a_guest_are_on_its_python_s_path(campus: Campus, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "tiny.py").write_text("WORD = 'installed'\n")
    spec = await campus.started("imports a package", packages=str(packages))
    await campus.runtime.wait_exit(spec.run_id)
    paths = await campus.runtime.prepare(spec)
    assert (paths.output_dir / "seen").read_text() == "installed"
    if campus.runtime.sandboxed:
        assert (packages / "tiny.py").read_text() == "WORD = 'installed'\n"  # it tried to write there


async def test_the_environment_is_the_contracts_and_nothing_of_the_agents(
    campus: Campus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_TOKEN", "secret-of-the-agent")
    asked = {"MY_SETTING": "a=b c", "GPUNION_JOB_ID": "forged", "HOME": "/elsewhere"}
    spec = await campus.started("tells its environment", environment=asked, gpu_indices=(1, 3), resume=True)
    await campus.runtime.wait_exit(spec.run_id)
    paths = await campus.runtime.prepare(spec)
    told = dict(line.split("=", 1) for line in (paths.output_dir / "env").read_text().splitlines())
    assert "secret-of-the-agent" not in told.values()
    assert {name: told[name] for name in ("GPUNION_JOB_ID", "GPUNION_RUN_EPOCH", "GPUNION_RESUME")} == {
        "GPUNION_JOB_ID": "job-1",
        "GPUNION_RUN_EPOCH": "1",
        "GPUNION_RESUME": "1",
    }
    assert told["MY_SETTING"] == "a=b c"
    assert told["OMP_NUM_THREADS"] == "1"  # as many as it has CPUs
    assert told["BATCH_SYSTEM"] == "GPUnion"
    assert told["NVIDIA_VISIBLE_DEVICES"] == "1,3"
    assert told["HOME"].startswith(os.path.dirname(told["TMPDIR"]))
    assert {"GPUNION_CHECKPOINT_DIR", "GPUNION_CONTROL_DIR", "GPUNION_OUTPUT_DIR"} <= told.keys()


async def test_our_folders_are_filled_into_a_command_and_nothing_else_is(campus: Campus) -> None:
    spec = await campus.started("is told its output folder in its command")
    assert (await campus.runtime.wait_exit(spec.run_id)).exit_code == 0
    made = (await campus.runtime.prepare(spec)).output_dir.iterdir()
    assert sorted(path.name for path in made) == ["a", "b$HOME"]


async def test_a_guest_without_a_gpu_is_told_so(campus: Campus) -> None:
    spec = await campus.started("tells its environment")
    await campus.runtime.wait_exit(spec.run_id)
    told = ((await campus.runtime.prepare(spec)).output_dir / "env").read_text().splitlines()
    assert "NVIDIA_VISIBLE_DEVICES=void" in told
    assert "CUDA_VISIBLE_DEVICES=" in told


async def test_both_outputs_are_in_the_log(campus: Campus) -> None:
    spec = await campus.started("speaks")
    await campus.runtime.wait_exit(spec.run_id)
    assert (await campus.runtime.prepare(spec)).log_file.read_text() == "to stdout\nto stderr\n"


async def test_the_log_is_bounded_and_says_so(campus: Campus) -> None:
    spec = await campus.started("speaks endlessly")
    paths = await campus.runtime.prepare(spec)
    await eventually(lambda: paths.log_file.exists() and b"dropped" in paths.log_file.read_bytes())
    await campus.runtime.kill(spec.run_id, ExitReason.STOPPED)
    assert len(paths.log_file.read_bytes()) < 4096 + 200


async def test_the_job_library_is_there_for_a_guest(campus: Campus) -> None:
    pytest.importorskip("numpy")
    spec = await campus.started("uses the job library")
    assert await campus.runtime.wait_exit(spec.run_id) == ended(ExitReason.EXITED, 0)
    assert (await campus.runtime.prepare(spec)).log_file.read_text() == "imported\n"


async def test_an_image_that_is_not_there_starts_nothing_and_is_named(campus: Campus) -> None:
    image = f"campus/none@sha256:{'0' * 64}"
    with pytest.raises(RuntimeFault, match=image) as fault:
        await campus.runtime.start(campus.guest("runs on", image=image))
    assert not fault.value.temporary
    status = await campus.runtime.status("job-1-e1")
    assert status is None or not status.alive


async def test_a_living_guest_is_not_removed(campus: Campus) -> None:
    spec = await campus.started("runs on")
    with pytest.raises(RuntimeFault):
        await campus.runtime.remove(spec.run_id)
    status = await campus.runtime.status(spec.run_id)
    assert status is not None
    assert status.alive


async def test_a_removed_guest_leaves_nothing_and_may_be_removed_again(campus: Campus) -> None:
    spec = await campus.started("exits with 3")
    await campus.runtime.wait_exit(spec.run_id)
    root = (await campus.runtime.prepare(spec)).root
    await campus.runtime.remove(spec.run_id)
    await campus.runtime.remove(spec.run_id)
    assert not root.exists()
    assert await campus.runtime.status(spec.run_id) is None


async def test_an_unknown_run_is_told_apart_from_an_ended_one(campus: Campus) -> None:
    assert await campus.runtime.status("nobody") is None
    assert await campus.runtime.kill("nobody", ExitReason.STOPPED) is None
    with pytest.raises(RuntimeFault):
        await campus.runtime.wait_exit("nobody")


async def test_nothing_starts_after_the_owners_kill_until_the_owner_resumes(campus: Campus) -> None:
    spec = campus.guest("exits with 3")
    kill_all(campus.state_dir)
    with pytest.raises(RuntimeFault):
        await campus.runtime.start(spec)
    lift_kill(campus.state_dir)
    await campus.runtime.start(spec)
    assert await campus.runtime.wait_exit(spec.run_id) == ended(ExitReason.EXITED, 3)


def test_it_says_how_guests_are_confined(campus: Campus) -> None:
    assert campus.runtime.sandboxed == ("unsandboxed" not in campus.runtime.describe())
    assert campus.runtime.name
