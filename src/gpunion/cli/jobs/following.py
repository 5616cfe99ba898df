"""Following a job: its output as it comes, its story in between, until it is over.

It asks again and again instead of holding a connection open: a coordinator that restarts, or a laptop that
sleeps, costs a moment of silence and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, OK
from gpunion.cli.jobs.job_names import short
from gpunion.cli.output.times import clock_time
from gpunion.cli.quantities import shown_preparing
from gpunion.sdk.errors import Unreachable

OVER = frozenset({"succeeded", "failed", "cancelled"})
LOG_PAGE_BYTES = 256 * 1024
# Quick while something happens, slower while nothing does.
FASTEST_S, SLOWEST_S, SLOWING = 0.2, 2.0, 1.3
# The last words of a program arrive after the news of its end: this long without any more of them.
LAST_WORDS_S, LOOK_S = 30.0, 0.25
# The client tries for some seconds by itself; so many rounds of that are minutes. The job does not mind.
SILENT_ROUNDS_MAX = 20
# A machine lets its guests go on for its lease, and what its owner's terms add to that, and no longer.
LEFT_ALONE = (
    "A running job goes on by itself for some seconds; then its machine saves and ends it, "
    "and it goes on from there when the coordinator is back."
)
# A word of an earlier run that came late has changed nothing: who looks for what went wrong has --json.
UNTOLD_CODES = frozenset({"stale_epoch"})
# After the last of these it runs, and what it prints is of that run or of one before.
BEGUN_CODES = frozenset({
    "started", "resumed", "resumed_whole", "unparked",
    "moved", "moved_anew", "moved_uncounted", "runs_again", "runs_again_anew", "runs_again_uncounted",
})  # fmt: skip
# One line for each checkpoint would drown the program's own words.
QUIET_CODES = UNTOLD_CODES | {"saved"}


@dataclass(slots=True)
class Follower:
    context: Context
    campus: Campus
    job_id: str
    _offset: int = 0
    _page: Json = field(default_factory=dict)  # the last one of the log that was looked at
    _told: int = 0  # lines of the story
    _last_sentence: str = ""
    _at_line_start: bool = True
    _prepared: tuple[str, int] = ("", 0)  # what was told last of what its start waits for
    _silent: bool = False  # the coordinator does not answer at the moment

    @property
    def prospect(self) -> str:
        """What becomes of the job while nobody follows it."""
        return LEFT_ALONE if self._silent else f"Job {short(self.job_id)} goes on."

    def follow(self, text: str = "", offset: int = 0) -> Json:
        """Returns the job as it ended. Its output from `offset` on; `text` is what to show of it before."""
        pause_s, silent, self._offset = FASTEST_S, 0, offset
        if text:
            self._tell_output(text)
        while True:
            try:
                job = self.campus.job(self.job_id)
                if job["phase"] in OVER:
                    self._tell_it_answers()
                    self._show_the_end()
                    return job
                news = self._look()
                self._show_preparing(job)
            except Unreachable:
                silent += 1
                if silent > SILENT_ROUNDS_MAX:
                    raise
                if silent == 1:
                    self._silent = True
                    self.context.screen.note(
                        f"The coordinator does not answer. {LEFT_ALONE} Asking again ..."
                    )
                self.context.pause(SLOWEST_S)
                continue
            self._tell_it_answers()
            silent = 0
            pause_s = FASTEST_S if news else min(SLOWEST_S, pause_s * SLOWING)
            self.context.pause(pause_s)

    def _tell_it_answers(self) -> None:
        if self._silent:
            self._silent = False
            self.context.screen.note("The coordinator answers again.")

    def _show_the_end(self) -> None:
        """What it printed comes after the news of its start, and before those of its end."""
        self._show_story(to_the_start=True)
        lacking = self._show_last_words()
        self._show_story()
        if lacking is not None:
            self.context.screen.note(still_there(self.job_id, lacking))

    def _look(self) -> bool:
        """Shows what is new; whether there was anything."""
        story = self._show_story()
        return self._show_log() or story

    def _show_preparing(self, job: Json) -> None:
        """What its start waits for, when that is another thing or a quarter further."""
        preparing = job.get("preparing")
        if preparing is None or self.context.screen.as_json:
            return
        reached = (preparing["what"], int(4 * (preparing["done"] or 0.0)))
        if reached != self._prepared:
            self._prepared = reached
            self.context.screen.note(f"Its start waits: {shown_preparing(preparing)}.")

    def _show_last_words(self) -> str | None:
        """Its log to the end; the machine that has not sent the end, if one has not."""
        waited_s = 0.0
        while True:
            if self._show_log():
                waited_s = 0.0
            if self._page.get("over", True) or waited_s >= LAST_WORDS_S:
                return self._page.get("lacking")
            self.context.pause(LOOK_S)
            waited_s += LOOK_S

    def _show_log(self) -> bool:
        news = False
        while True:
            page = self.campus.logs(self.job_id, offset=self._offset, limit=LOG_PAGE_BYTES)
            self._offset, self._page = page["next_offset"], page
            if not page["text"]:
                return news
            news = True
            self._tell_output(page["text"])

    def _show_story(self, *, to_the_start: bool = False) -> bool:
        """The coordinator folds repeated lines: the last one told may come again with another count."""
        lines = self.campus.why(self.job_id)["story"]
        if to_the_start:
            begun = (number for number, line in enumerate(lines, 1) if line["code"] in BEGUN_CODES)
            upto = max(self._told, max(begun, default=0))
            lines = lines[:upto] if upto else lines
        fresh = lines[max(0, self._told - 1) :]
        if fresh and self._told and fresh[0]["sentence"] == self._last_sentence:
            fresh = fresh[1:]
        for line in fresh:
            self._tell(line)
        self._told = len(lines)
        return bool(fresh)

    def _tell_output(self, text: str) -> None:
        if self.context.screen.as_json:
            self.context.screen.record({"type": "output", "text": text})
            return
        self.context.screen.program(text)
        self._at_line_start = text.endswith("\n")

    def _tell(self, line: Json) -> None:
        self._last_sentence = line["sentence"]
        if self.context.screen.as_json:
            self.context.screen.record({"type": "story", **line})
        elif line["code"] not in QUIET_CODES:
            # To stderr: `gpunion run -- prog > file` keeps the program's words and no others.
            begin = "" if self._at_line_start else "\n"
            self.context.screen.note(f"{begin}[{clock_time(line['at'])}] {line['sentence']}")
            self._at_line_start = True


def still_there(job_id: str, node: str) -> str:
    return (
        f"The last lines it printed may still be on {node}; "
        f"gpunion logs {short(job_id)} shows them once they have come."
    )


def exit_code_of(job: Json) -> int:
    """The program's own code; 1 where it has none, or says that all is well, and the job did not succeed."""
    if job["phase"] == "succeeded":
        return int(job["exit_code"] or OK)
    return int(job["exit_code"] or ERROR)
