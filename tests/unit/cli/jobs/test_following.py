"""Following a job to its end."""

from __future__ import annotations

import json

import pytest

from gpunion.cli.jobs.following import exit_code_of
from gpunion.sdk.errors import Unreachable
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job, a_line

OVER = "2026-01-01T00:10:00.000Z"


class Passing(Terminal):
    """Things happen while the command waits."""

    def happens(self, *scenes: object) -> None:
        self.scenes = list(scenes)

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        if self.scenes:
            self.scenes.pop(0)()  # type: ignore[operator]


def a_terminal(gpunion: Terminal) -> Passing:
    return Passing(gpunion.campus, gpunion.here)


def end(campus: CampusDouble, job_id: str, **changes: object) -> None:
    campus.known[job_id] = {
        **campus.known[job_id],
        "phase": "succeeded",
        "ended_at": OVER,
        "exit_code": 0,
        **changes,
    }


def test_output_and_story_come_as_they_happen_and_the_codes_is_the_jobs(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def starts() -> None:
        campus.stories[job_id] = [a_line("accepted"), a_line("placed on alpha")]
        campus.texts[job_id] = "step 1\n"

    def ends() -> None:
        campus.stories[job_id].append(a_line("failed: exit 7"))
        campus.texts[job_id] += "step 2\n"
        end(campus, job_id, phase="failed", exit_code=7)

    terminal.happens(starts, ends)
    assert terminal("run", "--no-dir", "--", "python", "train.py") == 7
    assert terminal.out == "step 1\nstep 2\n"
    assert [line.partition("] ")[2] for line in terminal.err.splitlines() if "] " in line] == [
        "accepted",
        "placed on alpha",
        "failed: exit 7",
    ]


def test_run_takes_a_job_file_as_submit_does(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    (gpunion.here / "job.toml").write_text('command = "python a.py"\ndir = false\n')
    assert terminal("submit", "job.toml", "--gpus", "2") == 0
    terminal.happens(lambda: end(campus, a_job(2)["id"]))
    assert terminal("run", "job.toml", "--gpus", "2") == 0
    assert campus.submitted[0] == campus.submitted[1]


def test_a_failed_job_whose_own_program_ended_well_is_not_said_to_have_failed_with_zero(
    gpunion: Terminal,
) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    terminal.happens(lambda: end(campus, a_job(1)["id"], phase="failed", exit_code=0))
    assert terminal("run", "--no-dir", "--", "true") == 1
    assert "failed, though its own program ended with 0, after" in terminal.err


def test_last_words_that_come_after_the_end_are_still_shown(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def late() -> None:
        campus.texts[job_id] = "goodbye\n"
        campus.lacking = None

    campus.lacking = "alpha"
    terminal.happens(lambda: end(campus, job_id), late)
    assert terminal("run", "--no-dir", "--", "true") == 0
    assert terminal.out == "goodbye\n"


def test_the_end_of_a_long_output_is_waited_for_however_long_it_keeps_coming(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def ends() -> None:
        campus.lacking = "alpha"
        end(campus, job_id)

    def comes() -> None:
        campus.texts[job_id] = campus.texts.get(job_id, "") + "more\n"

    def says_so() -> None:
        campus.texts[job_id] += "THE END\n"
        campus.lacking = None

    terminal.happens(ends, *[lambda: None, comes] * 100, says_so)
    assert terminal("run", "--no-dir", "--", "true") == 0
    assert terminal.out == "more\n" * 100 + "THE END\n"
    assert "may still be on" not in terminal.err


@pytest.mark.parametrize("sends", [True, False])
def test_an_end_of_the_output_that_does_not_come_is_said_to_be_missing(
    gpunion: Terminal, sends: bool
) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]
    campus.texts[job_id] = "step 1\n"

    def ends() -> None:
        campus.lacking, campus.sends = "alpha", sends
        end(campus, job_id)

    terminal.happens(ends)
    assert terminal("run", "--no-dir", "--", "true") == 0
    assert terminal.out == "step 1\n"
    assert "The last lines it printed may still be on alpha; gpunion logs 00000001 shows them" in terminal.err
    waited_s = sum(terminal.pauses)
    assert 29 < waited_s < 40 if sends else waited_s < 2


def test_what_a_program_printed_last_comes_before_the_news_of_its_end(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def ends() -> None:
        campus.texts[job_id] = "the last step\n"
        campus.stories[job_id] = [a_line("accepted"), a_line("finished on alpha")]
        end(campus, job_id)

    terminal.happens(lambda: campus.stories.update({job_id: [a_line("accepted")]}), ends)
    assert terminal("run", "--no-dir", "--json", "--", "true") == 0
    told = [json.loads(line) for line in terminal.out.splitlines()]
    assert [one.get("text") or one.get("sentence") for one in told if one["type"] in ("output", "story")] == [
        "accepted",
        "the last step\n",
        "finished on alpha",
    ]


def told_in_order(terminal: Terminal) -> list[str]:
    told = [json.loads(line) for line in terminal.out.splitlines()]
    return [one.get("text") or one["sentence"] for one in told if one["type"] in ("output", "story")]


STORY = (a_line("accepted"), a_line("started on alpha", "started"), a_line("failed: exit code 1", "failed"))
IN_ORDER = ["accepted", "started on alpha", "oops\n", "failed: exit code 1"]


def test_what_a_short_job_printed_comes_between_its_start_and_its_end(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def starts_and_ends() -> None:
        campus.texts[job_id] = "oops\n"
        campus.stories[job_id] = list(STORY)
        end(campus, job_id, phase="failed", exit_code=1)

    terminal.happens(lambda: campus.stories.update({job_id: list(STORY[:1])}), starts_and_ends)
    assert terminal("run", "--no-dir", "--json", "--", "true") == 1
    assert told_in_order(terminal) == IN_ORDER


def test_who_follows_a_job_that_is_over_reads_it_in_the_order_it_happened(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    campus.submit({"name": "train", "command": ["true"]})
    job_id = a_job(1)["id"]
    campus.texts[job_id], campus.stories[job_id] = "oops\n", list(STORY)
    end(campus, job_id, phase="failed", exit_code=1)
    terminal.happens()
    assert terminal("logs", "-f", "--json", "00000001") == 1
    assert told_in_order(terminal) == IN_ORDER


def test_a_folded_line_is_told_once_and_saves_are_not_told(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]
    campus.stories[job_id] = [a_line("waiting: no GPU is free", "waiting")]

    def waits_on() -> None:
        campus.stories[job_id] = [a_line("waiting: no GPU is free", "waiting", times=2)]

    def saves() -> None:
        campus.stories[job_id].append(a_line("step 5 is durable", "saved"))

    terminal.happens(waits_on, saves, lambda: end(campus, job_id))
    assert terminal("run", "--no-dir", "--", "true") == 0
    assert terminal.err.count("waiting: no GPU is free") == 1
    assert "durable" not in terminal.err


def test_ctrl_c_detaches_and_says_how_to_come_back(gpunion: Terminal) -> None:
    terminal = a_terminal(gpunion)

    def interrupts() -> None:
        raise KeyboardInterrupt

    terminal.happens(interrupts)
    assert terminal("run", "--no-dir", "--", "true") == 130
    assert "Detached. Job 00000001 goes on." in terminal.err
    assert "gpunion logs -f 00000001" in terminal.err
    assert gpunion.campus.stopped == []


def test_a_coordinator_that_restarts_costs_nothing_but_a_moment(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def goes() -> None:
        campus.refuses = Unreachable(campus.url, "connection refused")

    def comes_back() -> None:
        campus.refuses = None
        end(campus, job_id)

    terminal.happens(goes, comes_back)
    assert terminal("run", "--no-dir", "--", "true") == 0
    assert terminal.err.count("its machine saves and ends it") == 1
    assert terminal.err.count("The coordinator answers again.") == 1


def test_who_leaves_while_the_coordinator_is_away_is_not_told_that_the_job_goes_on(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    campus.submit({"name": "train", "command": ["true"]})

    def goes() -> None:
        campus.refuses = Unreachable(campus.url, "connection refused")

    def interrupts() -> None:
        raise KeyboardInterrupt

    terminal.happens(goes, interrupts)
    assert terminal("logs", "-f", "00000001") == 130
    assert terminal.err.count("its machine saves and ends it") == 2
    assert "Job 00000001 goes on" not in terminal.err


def test_a_coordinator_that_stays_away_ends_the_following_and_not_the_job(gpunion: Terminal) -> None:
    terminal = a_terminal(gpunion)

    def goes() -> None:
        terminal.campus.refuses = Unreachable(terminal.campus.url, "connection refused")

    terminal.happens(goes)
    assert terminal("run", "--no-dir", "--", "true") == 6
    assert "its machine saves and ends it" in terminal.err


def test_for_programs_everything_is_one_stream_of_objects(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def ends() -> None:
        campus.stories[job_id] = [a_line("accepted")]
        campus.texts[job_id] = "hello\n"
        end(campus, job_id)

    terminal.happens(ends)
    assert terminal("run", "--json", "--no-dir", "--", "true") == 0
    records = [json.loads(line) for line in terminal.out.splitlines()]
    assert [record["type"] for record in records] == ["submitted", "story", "output", "ended"]
    assert records[2] == {"type": "output", "text": "hello\n"}


def test_a_cancelled_job_without_a_code_ends_with_one(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    terminal.happens(lambda: end(campus, a_job(1)["id"], phase="cancelled", exit_code=None))
    assert terminal("run", "--no-dir", "--", "true") == 1


@pytest.mark.parametrize(
    ("phase", "code", "exits"),
    [("succeeded", 0, 0), ("failed", 3, 3), ("failed", None, 1), ("failed", 0, 1), ("cancelled", None, 1)],
)
def test_the_job_s_own_code_is_handed_on_but_never_a_zero_that_is_not_true(
    phase: str, code: int | None, exits: int
) -> None:
    assert exit_code_of({"phase": phase, "exit_code": code}) == exits


def test_what_a_start_waits_for_is_told_once_and_again_a_quarter_further(gpunion: Terminal) -> None:
    campus, terminal = gpunion.campus, a_terminal(gpunion)
    job_id = a_job(1)["id"]

    def waits(what: str, done: float | None) -> None:
        preparing = {"run_id": "r", "what": what, "done": done}
        campus.known[job_id] = {**campus.known[job_id], "preparing": preparing}

    terminal.happens(
        lambda: waits("fetching its image", 0.1),
        lambda: waits("fetching its image", 0.2),
        lambda: waits("fetching its image", 0.6),
        lambda: waits("installing the packages of the environment pytorch", None),
        lambda: waits("installing the packages of the environment pytorch", None),
        lambda: end(campus, job_id),
    )
    assert terminal("run", "--no-dir", "--", "true") == 0
    told = [line for line in terminal.err.splitlines() if line.startswith("Its start waits")]
    assert told == [
        "Its start waits: fetching its image, 10%.",
        "Its start waits: fetching its image, 60%.",
        "Its start waits: installing the packages of the environment pytorch.",
    ]
