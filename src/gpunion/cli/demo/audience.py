"""What the audience sees: the job's story as it is written, and how far the training is."""

from __future__ import annotations

import queue
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from gpunion.cli.output.screen import screen_width
from gpunion.sdk.client import Client

POLL_S = 0.1
# How often a plain (not a terminal) audience hears of progress.
PLAIN_PROGRESS_S = 5.0
# A terminal that says it is narrower than this is not believed.
NARROWEST = 40

Job = dict[str, Any]


class DemoFailed(Exception):
    """An act did not come about. The message says which, and the job's story so far."""


class Audience:
    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._began_s = time.monotonic()
        self._status = ""
        self._plain_s = 0.0
        self._dead: set[str] = set()

    def died(self, node: str) -> None:
        """Nothing is told of work there any more: the coordinator believes in it until it notices."""
        self._dead.add(node)

    def act(self, title: str) -> None:
        self.say("")
        self.say(f"== {title}")

    def say(self, text: str) -> None:
        self._clear()
        print(text, file=self._out, flush=True)
        self._redraw()

    def tell(self, text: str) -> None:
        when = f"{time.monotonic() - self._began_s:6.1f} s  "
        self.say(self._folded(text, when) if self._terminal else when + text)

    def _folded(self, text: str, when: str) -> str:
        """Under each other's words, so that the times stay in a column of their own."""
        return textwrap.fill(
            text,
            width=max(screen_width(), NARROWEST),
            initial_indent=when,
            subsequent_indent=" " * len(when),
            break_long_words=False,
            break_on_hyphens=False,  # an id is copied whole
        )

    def progress(self, job: Job) -> None:
        live = job["live"] or {}
        share = float(live.get("progress", 0.0))
        step, node = live.get("step", 0), job["node_id"] or "-"
        if node in self._dead:
            self._clear()
            self._status = ""
            return
        if not self._terminal:
            if time.monotonic() - self._plain_s >= PLAIN_PROGRESS_S and live:
                self._plain_s = time.monotonic()
                self.tell(f"... step {step} ({share:.0%}) on {node}")
            return
        filled = int(30 * share)
        self._clear()
        self._status = (
            f"   [{'#' * filled}{'.' * (30 - filled)}] step {step} ({share:.0%}) on {node}: {job['phase']}"
        )
        self._redraw()

    def status(self, text: str) -> None:
        """One line at the bottom of a terminal; nobody else hears of it."""
        if self._terminal:
            self._clear()
            self._status = f"   {text}"
            self._redraw()

    @contextmanager
    def finished(self) -> Iterator[None]:
        """No status line while this lasts."""
        self._clear()
        self._status = ""
        yield

    def _clear(self) -> None:
        if self._terminal and self._status:
            print("\r\x1b[2K", end="", file=self._out)

    def _redraw(self) -> None:
        if self._terminal and self._status:
            # A line that reached the edge would go on in the next, which nobody clears.
            print(self._status[: screen_width() - 1], end="", file=self._out, flush=True)


class Watch:
    """Follows one job until something is true of it, telling its story meanwhile."""

    def __init__(self, client: Client, job_id: str, audience: Audience) -> None:
        self._client = client
        self._job_id = job_id
        self._audience = audience
        self.tell_saves = True
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def until(self, what: str, true_of: Callable[[Job], bool], limit_s: float) -> Job:
        until_s = time.monotonic() + limit_s
        while True:
            job = self._client.job(self._job_id)
            self._tell_news()
            self._audience.progress(job)
            if true_of(job):
                return job
            if job["phase"] in ("failed", "cancelled"):
                raise DemoFailed(f"the job {job['phase']} while waiting for: {what}")
            if time.monotonic() > until_s:
                raise DemoFailed(f"this did not happen within {limit_s:.0f} s: {what}")
            time.sleep(POLL_S)

    def durable_of_run(self, run_id: str) -> int:
        rows = self._client.checkpoints(self._job_id)
        return sum(row["run_id"] == run_id and row["phase"] == "durable" for row in rows)

    def _tell_news(self) -> None:
        while not self._news.empty():
            self._audience.tell(self._news.get())

    def _listen(self) -> None:
        for decision in self._client.events(since=0):
            for reason in decision["reasons"]:
                if reason["subject"] == self._job_id and (self.tell_saves or reason["code"] != "saved"):
                    self._news.put(reason["sentence"])
