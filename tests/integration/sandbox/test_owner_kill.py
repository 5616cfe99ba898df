"""`gpunion kill`: agent or keeper stopped, the disk against us, and never the wrong process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.owner_kill import OWNER_KILL_FILE, kill_all, killed_at_s, lift_kill, main
from gpunion.owner_kill.guest import lives, read_keeper
from gpunion.owner_kill.processes import boot_id, start_ticks
from gpunion.ports.runtime import RuntimeFault
from tests.integration.sandbox.conftest import Host
from tests.real_machine import eventually, processes_with

# Heavy parts of the standard library and everything of ours that is not needed to kill.
NOT_WANTED = (
    "asyncio",
    "dataclasses",
    "subprocess",
    "argparse",
    "logging",
    "typing",
    "gpunion.adapters",
    "gpunion.cli",
)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the owner that no kill may touch."""
    child = subprocess.Popen(["sleep", "100000"])
    yield child
    child.kill()
    child.wait()


def run_kill(host: Host, *words: str) -> tuple[int, str]:
    child = host.python(
        [sys.executable, "-m", "gpunion.owner_kill", "--state-dir", str(host.state_dir), *words]
    )
    output, _ = child.communicate()
    return child.returncode, output


def test_kill_ends_everything_while_the_agent_is_stopped(host: Host) -> None:
    token = str(host.state_dir / "token")
    agent = host.agent(
        "sh", "-c", "trap '' TERM INT HUP; setsid sleep 100000 & while :; do sleep 1; done", token
    )
    os.kill(agent.pid, signal.SIGSTOP)
    status, output = run_kill(host, "--json")
    receipt = json.loads(output)
    assert status == 0
    assert (receipt["ended"], receipt["survivors"], receipt["complete"]) == (["job-1-e1"], [], True)
    assert [pid for pid in processes_with(token) if pid != agent.pid] == []
    root = host.state_dir / "guests" / "job-1-e1"
    assert json.loads((root / "exit.json").read_text())["reason"] == "killed_by_owner"


def test_a_woken_agent_starts_nothing_until_the_owner_resumes(host: Host) -> None:
    kill_all(host.state_dir)
    assert killed_at_s(host.state_dir) is not None
    with pytest.raises(RuntimeFault, match="owner"):
        asyncio.run(host.runtime.start(host.guest("sleep", "100000")))
    lift_kill(host.state_dir)
    lift_kill(host.state_dir)
    assert killed_at_s(host.state_dir) is None


def test_a_keeper_launched_before_the_kill_does_not_start_its_guest_after_it(host: Host) -> None:
    """The launch is cut in two: the plan is there, the flag is raised, and then the keeper comes."""
    root = host.start("sh", "-c", "exit 0")
    asyncio.run(host.runtime.wait_exit("job-1-e1"))
    eventually(lambda: not lives(str(root)))  # its first keeper holds the lock a moment longer
    for name in ("keeper.json", "exit.json", "log.txt"):
        (root / name).unlink()
    kill_all(host.state_dir)
    read_end, write_end = os.pipe()
    subprocess.run(
        [sys.executable, "-m", "gpunion.adapters.runtimes.sandbox.keeper", str(root), str(write_end)],
        pass_fds=(write_end,),
        check=True,
    )
    os.close(write_end)
    with open(read_end, "rb") as answers:
        assert answers.read() == b"refused"
    assert json.loads((root / "exit.json").read_text())["reason"] == "killed_by_owner"
    assert not (root / "log.txt").exists()


def test_kill_ends_a_guest_whose_keeper_is_stopped_and_records_it(host: Host) -> None:
    root = host.start("sleep", "100000")
    keeper = read_keeper(str(root))
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGSTOP)
    receipt = kill_all(host.state_dir)
    assert (receipt.ended, receipt.survivors) == (["job-1-e1"], [])
    assert not lives(str(root))
    assert json.loads((root / "exit.json").read_text())["reason"] == "killed_by_owner"
    assert not (keeper.cgroup and Path(keeper.cgroup).exists())


def test_kill_finds_what_hid_from_a_keeper_that_is_already_dead(host: Host) -> None:
    token = str(host.state_dir / "hidden")
    root = host.start("sh", "-c", 'setsid sh -c "exec sleep 100000" "$0" & wait', token)
    eventually(lambda: len(processes_with(token)) > 0)
    keeper = read_keeper(str(root))
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    eventually(lambda: not keeper.alive())
    assert kill_all(host.state_dir).survivors == []
    assert not lives(str(root))
    assert not (keeper.cgroup and Path(keeper.cgroup).exists())


def test_kill_works_when_the_flag_cannot_be_written_and_says_so(host: Host) -> None:
    root = host.start("sleep", "100000")
    (host.state_dir / "owner").rmdir()
    (host.state_dir / "owner").write_text("a file in the way of the directory")
    receipt = kill_all(host.state_dir)
    assert receipt.ended == ["job-1-e1"]
    assert not lives(str(root))
    assert "could not be told" in receipt.trouble
    assert not receipt.complete


FULL_DISK = """
import resource, signal, sys
from gpunion.owner_kill import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # files can be made, and not a byte be written to them
sys.exit(main(["--state-dir", sys.argv[1]]))
"""


def test_a_kill_stands_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / OWNER_KILL_FILE).parent.mkdir()  # as a runtime has made it
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, killed_at_s(tmp_path)) == (0, 0.0), done.stderr
    assert "WARNING" not in done.stdout


def test_kill_never_touches_a_process_that_got_the_keepers_pid(
    host: Host, bystander: subprocess.Popen[bytes]
) -> None:
    root = host.start("sh", "-c", "exit 0")
    asyncio.run(host.runtime.wait_exit("job-1-e1"))
    (root / "exit.json").unlink()
    ticks = start_ticks(bystander.pid)
    assert ticks is not None
    record = {"pid": bystander.pid, "boot_id": boot_id(), "cgroup": "", "mark": "none"}
    for stolen in ({"start_ticks": ticks + 1}, {"start_ticks": ticks, "boot_id": "another boot"}):
        (root / "keeper.json").write_text(json.dumps(record | stolen))
        kill_all(host.state_dir)
        (root / "exit.json").unlink(missing_ok=True)
    assert bystander.poll() is None


def test_kill_with_nothing_to_kill_says_so_and_succeeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state-dir", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "Ended 0 guests" in output
    assert "gpunion resume" in output
    assert (tmp_path / OWNER_KILL_FILE).exists()


def test_kill_without_a_state_directory_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state-dir", str(tmp_path / "absent")]) == 1
    assert "--state-dir" in capsys.readouterr().err
    assert main(["--json", "--state-dir", str(tmp_path / "absent")]) == 1
    told = json.loads(capsys.readouterr().err)
    assert (told["exit_code"], "--state-dir" in told["next_step"]) == (1, True)


def test_kill_refuses_words_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gently"]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_damaged_flag_still_stands(tmp_path: Path) -> None:
    (tmp_path / "owner").mkdir()
    (tmp_path / OWNER_KILL_FILE).write_text("{")
    assert killed_at_s(tmp_path) == 0.0


def test_the_kill_imports_almost_nothing() -> None:
    program = (
        "import sys; import gpunion.owner_kill.command\n"
        f"print([name for name in {NOT_WANTED!r} if name in sys.modules])"
    )
    source = str(Path(sys.modules["gpunion"].__file__ or "").parents[1])
    answer = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": source},
        check=True,
    )
    assert answer.stdout == "[]\n"
