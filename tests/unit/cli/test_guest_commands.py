"""What a guest types, and what is asked of the coordinator and shown."""

from __future__ import annotations

import json

import pytest

from gpunion.cli.output.times import clock_time
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job, a_line, a_problem, a_verdict

AN_ID = a_job(7)["id"]
STAMP = "2026-01-01T00:00:00.000Z"


def test_flags_become_the_request(gpunion: Terminal, campus: CampusDouble) -> None:
    words = [
        "--gpus", "2", "--vram", "20GB", "--model", "A100,H100", "--exclude", "T4", "--cpus", "4",
        "--memory", "8GiB", "--name", "vit", "--priority", "high", "--lab", "vision", "--env", "SEED=1",
        "--env", "EMPTY=", "--checkpoint-every", "60s", "--expect", "2h", "--no-dir",
        "--compute-capability", ">= 8.0", "--cuda", ">=12.4",
    ]  # fmt: skip
    assert gpunion("submit", *words, "--", "python", "train.py", "--json") == 0
    assert campus.submitted == [
        {
            "name": "vit",
            "command": ["python", "train.py", "--json"],
            "priority": "high",
            "lab": "vision",
            "expected_s": 7200.0,
            "resources": {
                "gpus": 2,
                "vram": 20 * 10**9,
                "models": ["A100", "H100"],
                "exclude": ["T4"],
                "compute_capability": ">=8.0",
                "cuda": ">=12.4",
                "cpus": 4.0,
                "memory": 8 * 2**30,
            },
            "environment": {"SEED": "1", "EMPTY": ""},
            "checkpoint": {"max_interval_s": 60.0},
        }
    ]
    assert "waiting: no machine is part of this campus now" in gpunion.out


def test_flags_win_over_the_job_file(gpunion: Terminal, campus: CampusDouble) -> None:
    (gpunion.here / "gpunion.toml").write_text(
        'command = "python a.py"\n[resources]\ngpus = 1\nvram = "1GB"\n[env]\nA = "1"\nB = "1"\n'
    )
    assert gpunion("submit", "--gpus", "4", "--env", "B=2", "--no-dir") == 0
    assert campus.submitted[0]["resources"] == {"gpus": 4, "vram": 10**9}
    assert campus.submitted[0]["environment"] == {"A": "1", "B": "2"}
    assert campus.submitted[0]["name"] == "a.py"


def test_a_command_that_saves_can_be_given_as_a_flag(gpunion: Terminal, campus: CampusDouble) -> None:
    words = ("--checkpoint-command", "python 'save it.py'", "--no-dir", "--", "python", "a.py")
    assert gpunion("submit", *words) == 0
    assert campus.submitted[0]["checkpoint"] == {"command": ["python", "save it.py"]}


def test_what_stayed_behind_is_told_to_programs_too(gpunion: Terminal) -> None:
    (gpunion.here / ".env").write_text("TOKEN=1")
    assert gpunion("submit", "--json", "--", "python", "a.py") == 0
    assert json.loads(gpunion.out)["left_out"] == [{"name": ".env", "why": "secret"}]
    assert gpunion.err == ""


def test_the_working_directory_travels_with_the_job(gpunion: Terminal, campus: CampusDouble) -> None:
    (gpunion.here / "train.py").write_text("print(1)")
    assert gpunion("submit", "--", "python", "train.py") == 0
    assert [campus.submitted[0]["bundle"]] == list(campus.trees)
    assert "Sending 1 file" in gpunion.err


def test_an_empty_directory_is_not_sent(gpunion: Terminal, campus: CampusDouble) -> None:
    assert gpunion("submit", "--", "nvidia-smi") == 0
    assert campus.trees == {}
    assert "bundle" not in campus.submitted[0]


def test_a_job_that_is_turned_away_does_not_send_its_directory_first(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    (gpunion.here / "data").write_bytes(b"much")
    campus.turns_away = a_problem(422, "impossible", "no node could ever run it")
    assert gpunion("submit", "--gpus", "9", "--", "x") == 1
    assert "no node could ever run it" in gpunion.err
    assert (campus.batches, campus.submitted) == ([], [])
    campus.turns_away = None
    assert gpunion("submit", "--", "x") == 0
    assert len(campus.submitted) == 1


def test_quiet_prints_the_id_and_nothing_else(gpunion: Terminal) -> None:
    (gpunion.here / "train.py").write_text("")
    assert gpunion("submit", "-q", "--", "python", "train.py") == 0
    assert (gpunion.out, gpunion.err) == (f"{a_job(1)['id']}\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--no-dir"), "there is no command to run"),
        (("submit", "python", "--no-dir"), "there is no job file python"),
        (("run", "python"), "like: gpunion run -- python"),
        (("submit", "--checkpoint-command", "'", "--", "x"), "has a quote that does not end"),
        (("submit", "--checkpoint-command", "", "--", "x"), "names no program"),
        (("submit", "--dir", ".", "--no-dir", "--", "x"), "contradict each other"),
        (("submit", "--gpus", "many", "--", "x"), "argument --gpus: 'many' is not a whole number"),
        (("submit", "--vram", "20XB", "--", "x"), "argument --vram: '20XB' is not a size"),
        (("submit", "--compute-capability", "ampere", "--", "x"), "'ampere' has no number such as 8.0"),
        (("submit", "--cuda", "12.4", "--", "x"), "'>=12.4' for at least that"),
        (("submit", "--checkpoint-every", "0", "--", "x"), "must be more than nothing"),
        (("submit", "--env", "SEED", "--", "x"), "'SEED' is not NAME=VALUE"),
        (("submit", "--model", ",", "--", "x"), "names no model"),
        (("submit", "--priority", "urgent", "--", "x"), "invalid choice: 'urgent'"),
        (("submit", "--vrma", "1GB", "--", "x"), "no flag --vrma; did you mean --vram?"),
        (("ps", "train"), "does not know what to do with 'train'"),
        (("run", "python", "train.py"), "write the command after --, like: gpunion run -- python"),
        (("submit", "--deadline", "8h", "--", "x"), "--expect 2h --deadline 8h"),
        (("ps", "--", "train"), "takes nothing after --"),
        (("logs",), "the following arguments are required: JOB"),
        (("submit", "--memory", "0GB", "--", "x"), "argument --memory: '0GB' is no amount of memory"),
        (("submit", "--replicas", "0", "--", "x"), "argument --replicas: 0 is not enough"),
        (("run", "--no-dir", "--output", "a-file/there", "--", "x"), "a-file is a file"),
    ],
)
def test_a_mistake_in_the_flags_is_explained(gpunion: Terminal, words: tuple[str, ...], message: str) -> None:
    (gpunion.here / "a-file").write_text("")
    assert gpunion(*words) == 2
    assert message in gpunion.err
    assert gpunion.campus.submitted == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "-u", "src/train.py", "--fast"), "train.py"),
        (("./train.sh",), "train.sh"),
        (("python3", "-c", "import this\nprint(1/2)"), "python3"),
        (("bash", "-e", "-c", "cd /tmp; ls"), "bash"),
        (("odd\nname",), "odd name"),
    ],
)
def test_a_job_is_called_what_its_program_is(gpunion: Terminal, command: tuple[str, ...], name: str) -> None:
    assert gpunion("submit", "--no-dir", "--", *command) == 0
    assert gpunion.campus.submitted[0]["name"] == name


def test_an_impossible_job_shows_what_each_node_lacks(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.refuses = a_problem(
        422,
        "impossible",
        "no node could ever run it",
        verdicts=[a_verdict("alpha", "it has 1 GPU, 9 are needed")],
    )
    assert gpunion("submit", "--gpus", "9", "--no-dir", "--", "x") == 1
    assert "no node could ever run it" in gpunion.err
    assert "alpha  no    it has 1 GPU, 9 are needed" in gpunion.err


def test_ps_asks_for_living_jobs_and_with_all_for_every_one(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7, live={"run_id": "r", "step": 5, "progress": 0.25})}
    assert gpunion("ps") == 0
    assert "pending" in campus.phases_asked
    assert gpunion.out.splitlines()[1].split()[:6] == [
        "00000007",
        "train",
        "running",
        "alpha",
        "25%",
        "(step",
    ]
    assert gpunion("ps", "-a") == 0
    assert campus.phases_asked == ()


def test_ps_says_with_which_code_a_program_failed(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7, phase="failed", exit_code=3)}
    assert gpunion("ps", "-a") == 0
    assert "failed (3)" in gpunion.out
    campus.known = {AN_ID: a_job(7, phase="succeeded", exit_code=0)}
    assert gpunion("ps", "-a") == 0
    assert "succeeded  " in gpunion.out


def test_ps_says_until_when_a_job_may_stay_whose_machine_is_wanted_back(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    by = "2026-01-01T00:05:00.000Z"
    campus.known = {AN_ID: a_job(7, leaves_by=by)}
    assert gpunion("ps") == 0
    assert f"running (until {clock_time(by)})" in gpunion.out
    campus.known = {AN_ID: a_job(7, phase="migrating", leaves_by=by)}
    assert gpunion("ps") == 0
    assert "until" not in gpunion.out


def test_ps_without_jobs_says_so(gpunion: Terminal) -> None:
    assert gpunion("ps") == 0
    assert "No jobs under way" in gpunion.out
    assert gpunion("ps", "--json") == 0
    assert json.loads(gpunion.out) == {"jobs": []}


def test_ps_stops_at_its_limit_and_reads_several_pages_for_a_larger_one(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.known = {a_job(number)["id"]: a_job(number) for number in range(1, 1001)}
    assert gpunion("ps", "--json", "--limit", "3") == 0
    assert len(json.loads(gpunion.out)["jobs"]) == 3
    assert gpunion("ps", "--json", "--limit", "2000") == 0
    assert len(json.loads(gpunion.out)["jobs"]) == 1000


def test_why_tells_the_story_and_asks_each_node_while_the_job_waits(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.known = {AN_ID: a_job(7, phase="pending")}
    campus.stories[AN_ID] = [a_line("accepted from admin"), a_line("waiting: no GPU is free")]
    campus.stories[AN_ID].append(a_line("late news of run 1", "stale_epoch"))
    campus.verdicts = [a_verdict("alpha", "its owner is using it"), a_verdict("beta")]
    assert gpunion("why", "train") == 0
    assert "accepted from admin" in gpunion.out
    assert "alpha  no    its owner is using it" in gpunion.out
    assert "beta   yes   it would do best\n" in gpunion.out
    assert "late news" not in gpunion.out


def test_why_on_an_empty_campus_says_what_to_do(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7, phase="pending")}
    assert gpunion("why", "train") == 0
    assert "Next: gpunion join" in gpunion.out


def test_why_of_a_running_job_needs_no_verdicts(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7)}
    campus.stories[AN_ID] = [a_line("started on alpha from the beginning")]
    campus.place_troubles = {"attic": "it is not mounted"}
    assert gpunion("why", "train") == 0
    assert "NODE" not in gpunion.out
    assert gpunion.out.startswith(f"train ({AN_ID}) is running on alpha.\n")
    assert "now: attic, where its saves go: it is not mounted" in gpunion.out


def test_logs_are_shown_whole_over_many_pages(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7)}
    campus.texts[AN_ID] = "x" * 600_000 + "\n"
    assert gpunion("logs", "train") == 0
    assert gpunion.out == campus.texts[AN_ID]
    assert gpunion("logs", "train", "--json") == 0
    told = {"text": campus.texts[AN_ID], "over": False, "lacking": None}
    assert json.loads(gpunion.out) == {"job_id": AN_ID, **told}


def test_logs_of_a_job_that_is_over_can_be_followed_to_its_code(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.known = {AN_ID: a_job(7, phase="failed", ended_at="2026-01-01T00:00:00.000Z", exit_code=3)}
    campus.texts[AN_ID] = "bye\n"
    assert gpunion("logs", "-f", "train") == 3
    assert gpunion.out == "bye\n"


def test_of_logs_the_last_lines_are_enough_for_many(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7, phase="failed", ended_at=STAMP, exit_code=3)}
    campus.texts[AN_ID] = "x\n" * 400_000 + "last but one\nlast, and cut sho"
    assert gpunion("logs", "--tail", "2", "train") == 0
    assert gpunion.out == "last but one\nlast, and cut sho"
    assert gpunion("logs", "-n", "1", "train", "--json") == 0
    told = {"text": "last, and cut sho", "over": True, "lacking": None}
    assert json.loads(gpunion.out) == {"job_id": AN_ID, **told}
    assert gpunion("logs", "-f", "--tail", "2", "train") == 3
    assert gpunion.out == "last but one\nlast, and cut sho"
    assert gpunion("logs", "--tail", "0", "train") == 2


def test_stop_names_the_job_it_stopped(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7)}
    assert gpunion("stop", "00000007") == 0
    assert campus.stopped == [AN_ID]
    assert "00000007 (train) is stopping." in gpunion.out


def test_checkpoints_are_listed(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job(7)}
    assert gpunion("checkpoints", "train") == 0
    assert "No checkpoint is kept of it" in gpunion.out
    campus.saved = [
        {
            "id": "c1", "run_id": "r", "epoch": 1, "phase": "durable", "final": True, "step": 40,
            "progress": 0.5,
            "stall_s": 0.3, "size_bytes": 2048, "shipped_bytes": 1024, "trouble": None, "trouble_told": None,
            "requested_at": "2026-01-01T00:00:00.000Z", "captured_at": None, "durable_at": None,
            "tier": "app", "tier_why": "it took too long", "node_id": "alpha", "under_way": None,
            "ready_on": ["beta", "gamma"], "places": ["bucket"], "places_unknown": ["attic"], "gone": False,
        }
    ]  # fmt: skip
    assert gpunion("checkpoints", "train") == 0
    assert "c1 lies ready on beta, gamma." in gpunion.out
    assert "durable" in gpunion.out
    assert "2 KiB" in gpunion.out
    assert "bucket, attic? (no answer)" in gpunion.out
    assert "app (not system: it took too long)  alpha" in gpunion.out
    assert gpunion("checkpoints", "train", "--json") == 0
    assert json.loads(gpunion.out) == {"checkpoints": campus.saved}
    earlier = {**campus.saved[0], "id": "c0", "step": 30, "places": [], "places_unknown": [], "gone": True}
    campus.saved = [earlier, *campus.saved]
    assert gpunion("checkpoints", "train") == 0
    assert "c0" not in gpunion.out
    assert "since newer ones took their place: 1." in gpunion.out
    assert gpunion("checkpoints", "train", "--all") == 0
    assert "c0 (last of its run)  gone " in gpunion.out
    campus.saved = [campus.saved[1], {**earlier, "id": "c2", "step": 50}]
    assert gpunion("checkpoints", "train") == 0
    assert "c2 (step 50), lies in none of its places any more: it would go on from step 40." in gpunion.out
    campus.saved = [{**campus.saved[0], "spoiled": True}]
    assert gpunion("checkpoints", "train") == 0
    assert "durable: its program could not go on from it " in gpunion.out
    sending = {"stage": "sending", "for_s": 95.0, "done_bytes": 420, "total_bytes": 1024, "heard_at": STAMP}
    asked = {**earlier, "phase": "requested", "gone": False, "final": False, "tier_why": "", "spoiled": False}
    for saving, told in (
        (sending, "requested: being sent (41% of 1 KiB), 1 min 35 s  app"),
        ({**sending, "stage": "asked", "total_bytes": None}, "asked of its program, 1 min 35 s  app"),
        ({**sending, "stage": "unknown"}, "how far is not known, since alpha was last heard "),
        ({**sending, "stage": "unknown", "heard_at": None}, "not known, since alpha is not connected  app"),
        (None, "requested  app"),
    ):
        campus.saved = [{**asked, "under_way": saving}]
        assert gpunion("checkpoints", "train") == 0
        assert told in gpunion.out
    campus.saved = [
        {**asked, "step": 0, "progress": 0.0, "size_bytes": 0, "shipped_bytes": 0, "stall_s": 0.0}
    ]
    assert gpunion("checkpoints", "train") == 0
    assert "0 bytes" not in gpunion.out
    assert "0%" not in gpunion.out
    campus.saved = [{**earlier, "phase": "requested"}]  # of a run that ended first
    assert gpunion("checkpoints", "train") == 0
    assert "No checkpoint is kept of it" in gpunion.out


@pytest.mark.parametrize(
    ("changes", "ps", "why"),
    [
        ({}, "40% (step 40); a save is being sent (41% of 1 KiB), 5 s  ", "being sent (41% of 1 KiB), 5 s."),
        ({"stage": "asked", "total_bytes": None}, "asked of its program, 5 s  ", "asked of"),
        ({"stage": "unknown", "heard_at": None}, "40% (step 40)  ", "under way; how far is not known"),
    ],
)
def test_a_save_that_is_under_way_is_shown_with_the_job(
    gpunion: Terminal, campus: CampusDouble, changes: dict[str, str | None], ps: str, why: str
) -> None:
    saving = {"stage": "sending", "for_s": 5.0, "done_bytes": 420, "total_bytes": 1024, "heard_at": STAMP}
    live = {"run_id": "r", "step": 40, "progress": 0.4}
    campus.known = {AN_ID: a_job(1, phase="running", live=live, saving=saving | changes) | {"id": AN_ID}}
    assert gpunion("ps") == 0
    assert ps in gpunion.out
    assert gpunion("why", AN_ID) == 0
    assert f"Right now: a save is {why}" in gpunion.out


def test_why_says_how_often_saves_failed_in_a_row(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.known = {AN_ID: a_job() | {"id": AN_ID}}
    campus.stories = {AN_ID: [a_line("it was not saved", "save_failed", 3), a_line("saved", "saved", 9)]}
    assert gpunion("why", AN_ID) == 0
    told = [line for line in gpunion.out.splitlines() if "saved" in line]
    assert [line.partition("  ")[2].partition("  ")[2] for line in told] == [
        "it was not saved (3 times in a row, this is the last)",
        "saved",
    ]


def test_a_job_nobody_knows_is_not_found(gpunion: Terminal) -> None:
    for command in ("logs", "why", "stop", "checkpoints"):
        assert gpunion(command, "nothing") == 3
        assert "there is no job 'nothing'" in gpunion.err
        assert gpunion(command, AN_ID) == 3


def test_an_environment_travels_by_name_and_a_bad_one_is_refused_here(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    (gpunion.here / "requirements.txt").write_text("numpy\n")
    assert gpunion("submit", "--environment", "./requirements.txt", "--", "true") == 0
    assert campus.submitted[0]["lockfile"] == "requirements.txt"
    assert "leaves the version of 1 package open (numpy)" in gpunion.err
    (gpunion.here / "requirements.txt").write_text("-e .\n")
    assert gpunion("submit", "--environment", "requirements.txt", "--", "true") == 2
    assert "line 1: -e is not for a job to say" in gpunion.err
    assert gpunion("submit", "--environment", "nothing.txt", "--", "true") == 3
    assert gpunion("submit", "--no-dir", "--environment", "requirements.txt", "--", "true") == 2
    assert gpunion("submit", "--environment", "uv.lock", "--", "true") == 2
    assert "uv export" in gpunion.err
    assert len(campus.submitted) == 1


@pytest.mark.parametrize("flag", ["--as", "--name", "--lab"])
def test_a_name_that_is_none_is_refused_with_what_to_do(
    gpunion: Terminal, campus: CampusDouble, flag: str
) -> None:
    assert gpunion("submit", "--no-dir", flag, " ", "--", "true") == 2
    assert f"{flag}: ' ' is no name; write one, or leave the flag out" in gpunion.err
    assert campus.submitted == []


def test_what_a_job_is_run_with_may_begin_with_a_dash(gpunion: Terminal, campus: CampusDouble) -> None:
    assert gpunion("submit", "--no-dir", "--name", "n", "--", "train", "--name", "-5s") == 0
    assert campus.submitted[0]["command"] == ["train", "--name", "-5s"]


def test_a_gang_travels_as_a_number_and_ps_says_which_member_is_which(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    assert gpunion("submit", "--no-dir", "--nodes", "2", "--", "true") == 0
    assert campus.submitted[0]["gang"] == 2
    assert gpunion("submit", "--no-dir", "--nodes", "0", "--", "true") == 2
    members = [AN_ID, f"{AN_ID}-r1"]
    campus.known = {
        members[rank]: a_job(7, gang={"rank": rank, "size": 2, "members": members}) | {"id": members[rank]}
        for rank in (0, 1)
    }
    assert gpunion("ps") == 0
    assert "train (1 of 2)" in gpunion.out
    assert "00000007-r1  train (2 of 2)" in gpunion.out
    assert gpunion.out.index("(1 of 2)") < gpunion.out.index("(2 of 2)")


def test_ps_names_the_job_that_another_made_room_for(gpunion: Terminal, campus: CampusDouble) -> None:
    job = a_job(phase="migrating", room_for="job-01jurgent")
    campus.known = {job["id"]: job}
    assert gpunion("ps") == 0
    assert "made room for" in gpunion.out.splitlines()[1]
