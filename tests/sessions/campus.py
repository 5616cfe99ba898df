"""A campus of real processes with notebooks on it, and `gpunion notebook` as its user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo.campus import Lab, LocalCampus
from tests.sessions.jupyter import Jupyter

LIMIT_S = 180.0  # generous: CI is busy
# Nobody is to lose a lease because this machine stands still for some seconds.
TIMING = {
    "heartbeat_s": 0.3,
    "lease_s": 60.0,
    "grace_s": 2.0,
    "resend_s": 0.5,
    "replan_s": 1.0,
    "avoid_s": 1.0,
}
RESOURCES = ["--gpus", "1", "--memory", "3GiB", "--cpus", "0.5"]


@contextmanager
def a_campus(
    root: Path, runtime: str, labs: tuple[str, ...] = ("alpha-01", "beta-01")
) -> Iterator[SessionCampus]:
    campus = LocalCampus(root=root, timing=TIMING, environment={"GPUNION_RUNTIME": runtime})
    try:
        campus.start_coordinator()
        for number, name in enumerate(labs):
            lab = name.partition("-")[0].capitalize()
            campus.join(Lab(name=name, lab=lab, model="TEST", memory_gib=8, speed=1.0 - number / 10))
        campus.start_agent(*labs)
        yield SessionCampus(campus, runtime)
    finally:
        campus.close(keep_files=bool(os.environ.get("GPUNION_KEEP")))


class SessionCampus:
    def __init__(self, campus: LocalCampus, runtime: str) -> None:
        self.campus, self.runtime = campus, runtime

    @contextmanager
    def notebook(self, name: str, folder: Path | None = None) -> Iterator[Opened]:
        """A session, opened by the command of its user, without a browser."""
        opened = Opened(self, name, folder)
        try:
            yield opened
        finally:
            opened.close()

    def session(self, name: str) -> dict[str, Any]:
        with self.campus.client() as client:
            return client.session(name)

    def why(self, name: str) -> str:
        with self.campus.client() as client:
            story = client.why(client.session(name)["job_id"])["story"]
        return "\n".join(f"{line['at']} {line['sentence']}" for line in story)

    def until(self, name: str, what: str, true_of: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        until_s = time.monotonic() + LIMIT_S
        while True:
            found = self.session(name)
            if true_of(found):
                return found
            assert time.monotonic() < until_s, f"not {what}: {found}\n{self.why(name)}"
            time.sleep(0.1)

    def until_dumpable(self) -> None:
        """Each machine has found out that it can move whole guests."""
        until_s = time.monotonic() + LIMIT_S
        while True:
            with self.campus.client() as client:
                nodes = client.nodes()
            if nodes and all(node["dumps_guests"] for node in nodes):
                return
            assert time.monotonic() < until_s, [node["dumps_why_not"] for node in nodes]
            time.sleep(0.5)

    def until_saved(self, name: str) -> dict[str, Any]:
        return self.until(name, "saved", lambda session: session["saved_ago_s"] is not None)

    def reclaim(self, node: str, notice_s: float) -> None:
        owner_client.reclaim(self.campus.state_dir(node), notice_s=notice_s)

    def resume(self, node: str) -> None:
        owner_client.resume(self.campus.state_dir(node))

    def kill(self, node: str) -> None:
        owner_client.kill(self.campus.state_dir(node))

    def move(self, name: str, notice_s: float = 30.0) -> dict[str, Any]:
        """Its owner wants the machine; it comes to another, and the owner lends again."""
        before = self.session(name)
        self.reclaim(before["node"], notice_s)
        after = self.until(
            name,
            "elsewhere",
            lambda now: now["restored"] and now["here"] and now["node"] not in (None, before["node"]),
        )
        self.resume(before["node"])
        return after


class Opened:
    """`gpunion notebook`, as a process, and what it said."""

    def __init__(self, campus: SessionCampus, name: str, folder: Path | None) -> None:
        environment = {**os.environ, "GPUNION_URL": campus.campus.url, "GPUNION_TOKEN": campus.campus.token}
        words = [
            sys.executable,
            "-m",
            "gpunion",
            "notebook",
            *([str(folder)] if folder else []),
            "--name",
            name,
        ]
        words += ["--no-browser", "--json", *RESOURCES]
        words += [] if folder else ["--no-dir"]
        self._process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.campus, self.name = campus, name
        self.said: list[dict[str, Any]] = []
        self._ready = threading.Event()
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()
        if not self._ready.wait(LIMIT_S) or not self.url:
            raise AssertionError(f"not ready: {self.said[-3:]}\n{campus.why(name)}")

    @property
    def url(self) -> str:
        """What the browser opens."""
        ready = (line for line in self.said if line["type"] == "ready")
        return str(next(ready, {}).get("url", ""))

    @property
    def jupyter(self) -> Jupyter:
        """As a page reaches it."""
        host = self.url.split("/")[2]
        port = host.rpartition(":")[2]
        return Jupyter(self.campus.session(self.name)["token"], address=f"http://127.0.0.1:{port}", host=host)

    def close(self) -> int:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        return self._process.wait(LIMIT_S)

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))
            if self.said[-1]["type"] == "ready":
                self._ready.set()
        self._ready.set()
