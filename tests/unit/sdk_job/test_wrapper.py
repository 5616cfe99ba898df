"""Programs that cannot be changed are saved by a command or a signal, in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import gpunion
from gpunion.domain.jobs.job import WRAPPER, CheckpointWish, JobSpec
from gpunion.sdk.job import wrapper
from gpunion.sdk.job.messages import Mailbox, Request

PATIENCE_S = 30.0
SLEEPS = ("sh", "-c", "while :; do sleep 0.02; done")


class Guest:
    def __init__(self, root: Path) -> None:
        self.checkpoint_dir, self.control_dir = root / "checkpoint", root / "control"
        self.checkpoint_dir.mkdir()
        self.control_dir.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def runs(
        self,
        *words: str,
        in_the_way_share: float = wrapper.IN_THE_WAY_SHARE,
        settle_s: float = 0.2,
        in_windows: bool = False,
    ) -> None:
        quicker = f"w.SETTLE_S = {settle_s}; w.IN_THE_WAY_SHARE = {in_the_way_share}"
        module = f"import gpunion.sdk.job.wrapper as w, sys; {quicker}; sys.exit(w.main(sys.argv[1:]))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", module, *words],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(gpunion.__file__).parents[1]),
                "GPUNION_CHECKPOINT_DIR": str(self.checkpoint_dir),
                "GPUNION_CONTROL_DIR": str(self.control_dir),
                "GPUNION_WINDOWS": str(int(in_windows)),
            },
            start_new_session=True,
        )
        self.until(lambda: (self.control_dir / "progress.json").exists())

    def asked(self, request: str, *, final: bool = False) -> dict[str, object]:
        path = self.control_dir / "request.json"
        path.with_suffix(".new").write_text(json.dumps({"id": request, "final": final}))
        path.with_suffix(".new").rename(path)
        self.until(lambda: self.saved().get("id") == request)
        return self.saved()

    def saved(self) -> dict[str, object]:
        path = self.control_dir / "saved.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def held(self) -> str:
        return (self.control_dir / "held").read_text()

    def ends(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def until(self, look: Callable[[], bool]) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not look():
            assert time.monotonic() < until_s, "it did not happen"
            time.sleep(0.01)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    found = Guest(tmp_path)
    yield found
    if found.process is not None and found.process.poll() is None:
        os.killpg(found.process.pid, signal.SIGKILL)
        found.process.wait()


KEEPS_DATE = "cp -p $GPUNION_CONTROL_DIR/state $GPUNION_CHECKPOINT_DIR/state"


def words_of(*command: str) -> list[str]:
    return [f"--command={word}" for word in command]


def test_a_command_saves_beside_the_program_and_a_last_save_ends_it_with_85(guest: Guest) -> None:
    save = "echo state > $GPUNION_CHECKPOINT_DIR/state"
    guest.runs(*words_of("sh", "-c", save), "--", *SLEEPS)
    first = guest.asked("one")
    assert first["files"] == [".gpunion-seconds.json", "state"]
    assert guest.process is not None
    assert guest.process.poll() is None
    guest.asked("two", final=True)
    assert guest.ends() == 85


def window(guest: Guest, in_s: float) -> None:
    said = {"ends": time.time() + in_s, "hard": True, "save_s": 0.0}
    (guest.control_dir / "window.json").write_text(json.dumps(said))


SAVES = "echo state > $GPUNION_CHECKPOINT_DIR/state"
TELLS = "cd $GPUNION_CONTROL_DIR; echo '{\"step\": 7}' > p; mv p progress.json"


def test_a_program_whose_agent_is_silent_is_saved_before_its_window_ends(guest: Guest) -> None:
    guest.runs(*words_of("sh", "-c", SAVES), "--", *SLEEPS, in_windows=True)
    window(guest, 4.0)
    assert guest.ends() == 85
    assert (guest.checkpoint_dir / "state").read_text() == "state\n"
    assert not (guest.control_dir / "saved.json").exists()
    kept = json.loads((guest.checkpoint_dir / wrapper.WORKED_FILE).read_text())
    assert json.loads((guest.control_dir / "progress.json").read_text())["step"] == kept["step"]


def test_what_such_a_save_holds_is_told_and_not_how_far_its_program_came_meanwhile(guest: Guest) -> None:
    saves = f"{SAVES}; echo '{{\"step\": 3}}' > $GPUNION_CHECKPOINT_DIR/progress.json"
    guest.runs(*words_of("sh", "-c", saves), "--", "sh", "-c", f"{TELLS}; sleep 600", in_windows=True)
    window(guest, 0.0)
    assert guest.ends() == 85
    assert json.loads((guest.control_dir / "progress.json").read_text())["step"] == 3


def test_an_agent_that_asks_is_answered(guest: Guest) -> None:
    guest.runs(*words_of("sh", "-c", f"{SAVES}; sleep 0.5"), "--", *SLEEPS, in_windows=True)
    window(guest, 0.0)
    guest.asked("one", final=True)
    assert guest.ends() == 85


def test_a_job_that_runs_in_no_windows_heeds_none(guest: Guest) -> None:
    guest.runs(*words_of("sh", "-c", SAVES), "--", "sleep", "3")
    window(guest, 0.0)
    assert guest.ends() == 0
    assert not (guest.checkpoint_dir / "state").exists()


def test_a_save_that_was_under_way_when_the_notice_came_is_the_last_one(guest: Guest) -> None:
    slow = "cd $GPUNION_CONTROL_DIR; echo once >> ran; while ! test -e go; do sleep 0.01; done"
    guest.runs(*words_of("sh", "-c", slow), "--", *SLEEPS)
    (guest.control_dir / "request.json").write_text(json.dumps({"id": "one", "final": False}))
    guest.until(lambda: (guest.control_dir / "ran").exists())
    (guest.control_dir / "request.json").write_text(json.dumps({"id": "two", "final": True}))
    (guest.control_dir / "go").touch()
    assert guest.ends() == 85
    assert guest.saved()["id"] == "two"
    assert (guest.control_dir / "ran").read_text() == "once\n"


def hangs_until(wanted: str) -> str:
    """The first run of it starts something that never ends; later ones do as well, or save at once."""
    saves = "echo state > $GPUNION_CHECKPOINT_DIR/state"
    hangs = "sleep 3600 & echo $! > held; wait"
    return f"cd $GPUNION_CONTROL_DIR; echo ran >> ran; if {wanted}; then {saves}; else {hangs}; fi"


def asks(guest: Guest, request: str, **more: object) -> None:
    new = guest.control_dir / "request.new"
    new.write_text(json.dumps({"id": request, **more}))
    new.rename(guest.control_dir / "request.json")


def test_a_command_that_hangs_is_ended_for_the_last_save_with_all_it_started_and_tried_again(
    guest: Guest,
) -> None:
    hanging = hangs_until("test $(wc -l < ran) -gt 1")
    guest.runs(*words_of("sh", "-c", hanging), "--", *SLEEPS, in_the_way_share=0.0001)
    asks(guest, "one", final=False)
    guest.until(lambda: (guest.control_dir / "held").exists() and bool(guest.held()))
    held = int(guest.held())
    asks(guest, "two", final=True, deadline=time.time() + 3600.0)
    assert guest.ends() == 85
    assert guest.saved()["id"] == "two"
    assert (guest.control_dir / "ran").read_text() == "ran\nran\n"
    guest.until(lambda: not _lives(held))


def test_a_last_save_that_hangs_is_given_up_before_the_machine_has_to_be_free_and_says_so(
    guest: Guest,
) -> None:
    guest.runs(*words_of("sh", "-c", hangs_until("false")), "--", *SLEEPS)
    deadline = time.time() + 3.0
    asks(guest, "one", final=True, deadline=deadline)
    guest.until(lambda: (guest.control_dir / "not-saved.json").exists())
    said = json.loads((guest.control_dir / "not-saved.json").read_text())
    assert said["id"] == "one"
    assert "sh: nothing was saved within" in said["trouble"]
    assert said["trouble"].endswith("so it was given up, since the last save is wanted")


@pytest.mark.parametrize(("longest_s", "given_up"), [(0.0, True), (1e6, False)])
def test_a_save_that_takes_as_long_as_ever_is_not_given_up_for_the_last_one(
    guest: Guest, monkeypatch: pytest.MonkeyPatch, longest_s: float, given_up: bool
) -> None:
    monkeypatch.setattr(wrapper, "IN_THE_WAY_SHARE", 0.0)
    monkeypatch.setenv("GPUNION_CONTROL_DIR", str(guest.control_dir))
    allowance = wrapper.Allowance(Mailbox(), Request(id="one", final=False), longest_s)
    asks(guest, "two", final=True, deadline=time.time() + 3600.0)
    assert allowance.over() is given_up


def test_a_last_save_that_hangs_makes_way_for_the_one_of_a_notice(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first was asked for to go home, with no deadline, and its agent has given it up."""
    monkeypatch.setattr(wrapper, "IN_THE_WAY_SHARE", 0.0)
    monkeypatch.setenv("GPUNION_CONTROL_DIR", str(guest.control_dir))
    allowance = wrapper.Allowance(Mailbox(), Request(id="one", final=True), 0.0)
    assert not allowance.over()
    asks(guest, "two", final=True, deadline=time.time() + 3600.0)
    guest.until(allowance.over)


def test_a_command_that_hangs_does_not_keep_a_program_that_is_over(guest: Guest) -> None:
    ends_soon = ("sh", "-c", "until test -s $GPUNION_CONTROL_DIR/held; do sleep 0.01; done; exit 3")
    guest.runs(*words_of("sh", "-c", hangs_until("false")), "--", *ends_soon)
    asks(guest, "one", final=False)
    assert guest.ends() == 3
    held = int(guest.held())
    guest.until(lambda: not _lives(held))


def _lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_command_that_fails_is_no_save(guest: Guest) -> None:
    guest.runs(*words_of("sh", "-c", "test -e $GPUNION_CHECKPOINT_DIR/good"), "--", *SLEEPS)
    (guest.control_dir / "request.json").write_text(json.dumps({"id": "one", "final": False}))
    guest.until(lambda: (guest.control_dir / "not-saved.json").exists())
    said = json.loads((guest.control_dir / "not-saved.json").read_text())
    assert said == {"id": "one", "trouble": "its checkpoint command sh ended with status 1"}
    (guest.checkpoint_dir / "good").touch()
    assert guest.asked("two")["id"] == "two"


def test_a_command_that_may_not_be_executed_is_told_with_what_helps(guest: Guest) -> None:
    script = guest.control_dir / "save.sh"
    script.write_text("#!/bin/sh\n")
    guest.runs(*words_of(str(script)), "--", *SLEEPS)
    asks(guest, "one", final=False, deadline=None)
    guest.until(lambda: (guest.control_dir / "not-saved.json").exists())
    said = json.loads((guest.control_dir / "not-saved.json").read_text())["trouble"]
    assert said == (
        f"its checkpoint command {script} cannot be run: Permission denied; chmod +x {script} lets it be"
    )


def test_a_signal_is_a_save_once_the_directory_stands_still(guest: Guest) -> None:
    program = (
        "trap 'echo a > $GPUNION_CHECKPOINT_DIR/a; sleep 0.05; echo b > $GPUNION_CHECKPOINT_DIR/b' USR2; "
    )
    program += "touch $GPUNION_CONTROL_DIR/on; " + SLEEPS[2]
    # Far longer than the program pauses: a busy machine may take a while to end its sleep.
    guest.runs("--signal", "SIGUSR2", "--", "sh", "-c", program, settle_s=3.0)
    guest.until(lambda: (guest.control_dir / "on").exists())
    assert guest.asked("one")["files"] == [".gpunion-seconds.json", "a", "b"]


def test_a_program_that_leaves_with_85_is_believed(guest: Guest) -> None:
    program = "trap 'echo a > $GPUNION_CHECKPOINT_DIR/a; exit 85' USR2; touch $GPUNION_CONTROL_DIR/on; "
    guest.runs("--signal", "SIGUSR2", "--", "sh", "-c", program + SLEEPS[2])
    guest.until(lambda: (guest.control_dir / "on").exists())
    (guest.control_dir / "request.json").write_text(json.dumps({"id": "one", "final": True}))
    assert guest.ends() == 85
    assert (guest.checkpoint_dir / "a").exists()


def test_seconds_of_work_are_counted_over_restarts(guest: Guest) -> None:
    (guest.checkpoint_dir / wrapper.WORKED_FILE).write_text('{"seconds": 5000}')
    guest.runs(*words_of("true"), "--", *SLEEPS)
    step = guest.asked("one", final=True)["step"]
    assert isinstance(step, int)
    assert 5000 <= step < 5000 + PATIENCE_S


def test_a_save_is_dated_by_when_it_was_written_and_not_by_when_it_was_copied(guest: Guest) -> None:
    (guest.checkpoint_dir / wrapper.WORKED_FILE).write_text('{"seconds": 5000}')
    state = guest.control_dir / "state"
    state.write_text("written long before it is copied")
    os.utime(state, (1e9, 1e9))
    module = "import time; time.sleep(1.5)"
    copies = f"{sys.executable} -c '{module}'; cp -p {state} $GPUNION_CHECKPOINT_DIR/state"
    guest.runs(*words_of("sh", "-c", copies), "--", *SLEEPS)
    said = guest.asked("one")
    assert (said["step"], said["counted"]) == (5000, "seconds")


def test_a_copy_that_does_not_keep_its_date_says_that_nobody_knows_how_old_it_is(guest: Guest) -> None:
    state = guest.control_dir / "state"
    state.write_text("written long before it is copied")
    os.utime(state, (1e9, 1e9))
    guest.runs(*words_of("sh", "-c", f"cp {state} $GPUNION_CHECKPOINT_DIR/state"), "--", *SLEEPS)
    assert guest.asked("one")["counted"] == "unknown"


# Tells each step, writes what can be saved at every tenth, and waits at the twenty-fifth.
COUNTS = """
n=0
while [ $n -lt 25 ]; do
  n=$((n + 1))
  echo "{\\"step\\": $n}" > $GPUNION_CONTROL_DIR/mine
  mv $GPUNION_CONTROL_DIR/mine $GPUNION_CONTROL_DIR/progress.json
  [ $((n % 10)) = 0 ] && echo $n > $GPUNION_CONTROL_DIR/state
  sleep 0.1
done
touch $GPUNION_CONTROL_DIR/there
while :; do sleep 0.02; done
"""


def test_of_a_program_that_tells_its_steps_a_copy_counts_as_the_step_that_it_has(guest: Guest) -> None:
    guest.runs(*words_of("sh", "-c", KEEPS_DATE), "--", "sh", "-c", COUNTS)
    guest.until(lambda: (guest.control_dir / "there").exists())
    said = guest.asked("one", final=True)
    assert (said["step"], said["counted"]) == (20, "steps")
    assert guest.ends() == 85
    assert json.loads((guest.control_dir / "progress.json").read_text())["step"] == 25


def test_a_save_that_says_its_step_counts_as_that_however_it_was_copied(guest: Guest) -> None:
    save = "cd $GPUNION_CHECKPOINT_DIR; echo state > state; echo '{\"step\": 7}' > progress.json"
    guest.runs(*words_of("sh", "-c", save), "--", *SLEEPS)
    said = guest.asked("one")
    assert (said["step"], said["counted"]) == (7, "steps")


def test_steps_stay_steps_in_the_next_run_and_never_go_back(guest: Guest) -> None:
    (guest.checkpoint_dir / wrapper.WORKED_FILE).write_text('{"seconds": 9, "step": 700, "counts": "steps"}')
    guest.runs(*words_of("true"), "--", *SLEEPS)
    said = guest.asked("one")
    assert (said["step"], said["counted"]) == (700, "unknown")


def test_the_programs_own_end_is_the_wrappers(guest: Guest) -> None:
    guest.runs(*words_of("true"), "--", "sh", "-c", "sleep 0.2; exit 7")
    assert guest.ends() == 7


def test_a_job_that_is_saved_from_outside_runs_behind_the_wrapper() -> None:
    plain = JobSpec(name="job", command=("./solver", "-v"), owner="ada")
    assert plain.wrapper == ()
    by_command = replace(plain, checkpoint=CheckpointWish(command=("./save", "-c")))
    assert by_command.wrapper == (*WRAPPER, "--command=./save", "--command=-c", "--")
    by_signal = replace(plain, checkpoint=CheckpointWish(signal="SIGUSR2"))
    assert by_signal.wrapper == (*WRAPPER, "--signal", "SIGUSR2", "--")
