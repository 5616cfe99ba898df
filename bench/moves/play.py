"""An unmodified container moves between two machines, over and over, because their owners want them back.

The machines are two agents in network namespaces of their own, with a coordinator and a vault beside them.
The program in the container knows nothing of us: it counts in memory and writes every number, with the time,
into a file that it opened once. A number that is missing or there twice would be a step lost or repeated.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.moves.network import Network, network
from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo.campus import Lab, LocalCampus, Process, spawn_module
from gpunion.owner_kill import kill_all

HOSTS = ("a", "b")
NOTICE_S = 60.0
AGENT = {"GPUNION_RUNTIME": "podman"}
LIMIT_S = 120.0
LOOK_S = 0.02
# Quick enough that what is measured is the move and not the waiting for each other.
TIMING = {"heartbeat_s": 0.5, "lease_s": 10.0, "grace_s": 3.0, "replan_s": 1.0, "avoid_s": 1.0}

COUNTING = """
import os, time
book = open("/gpunion/output/book", "w")
ballast = bytearray(os.urandom(1 << 20) * {ballast_mib})
count = 0
while True:
    count += 1
    book.write(f"{{count}} {{time.time():.4f}}\\n")
    book.flush()
    time.sleep(0.01)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    source: str
    destination: str
    downtime_s: float  # between two numbers of the counting program, as it wrote them
    shipped_bytes: int
    size_bytes: int
    lost_or_repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """An agent is killed in the middle of a move, with SIGKILL, and started again."""

    after_s: float  # of the owner's word
    at_destination: bool


@dataclass(slots=True)
class Play:
    campus: LocalCampus
    job_id: str = ""
    moves: list[Move] = field(default_factory=list)
    seen_until_s: float = 0.0  # up to which of its times the moves have been judged

    def begin(self, ballast_mib: int = 16, every_s: float = 3600.0) -> None:
        until("both machines can dump guests", self._able)
        job = {
            "name": "counting",
            "command": ["/usr/bin/python3", "-c", COUNTING.format(ballast_mib=ballast_mib)],
            "resources": {"gpus": 1, "cpus": 0.5, "memory": f"{3 * ballast_mib + 64}MiB"},
            "checkpoint": {"tier": "system", "max_interval_s": every_s},
        }
        self.job_id = str(self.campus.client().submit(job)["job"]["id"])
        until("it counts", lambda: self._running() and len(self.book()) > 10, self.story)

    def move(self, crash: Crash | None = None) -> Move:
        """Its owner wants the machine back; afterwards it is lent again."""
        source, epoch = self._job()["node_id"], self._job()["epoch"]
        seen = self.book()  # the longest that the file has been where it comes from

        def elsewhere() -> bool:
            nonlocal seen
            seen = max(seen, self._book(source, epoch), key=len)
            return self._running() and self._job()["epoch"] > epoch

        owner_client.reclaim(self.campus.state_dir(source), NOTICE_S)
        if crash is not None:
            self._crash(crash, source)
        until("it runs elsewhere", elsewhere, self.story)
        reached = self._job()["durable"]
        book = self.book()
        until("it goes on", lambda: len(self.book()) > len(book), self.story)
        until("its agent listens", lambda: self._resumed(source))
        until("the machine is lent again", lambda: self._phase(source) == "sharing", self.story)
        move = self._judge(source, reached["checkpoint_id"], seen)
        self.moves.append(move)
        return move

    def lose(self) -> None:
        """Its owner takes the machine back without notice, after it was dumped once more where it is."""
        epoch = self._job()["epoch"]
        mark = f"-e{epoch}-c"
        until("it is dumped here", lambda: mark in (self._job()["durable"] or {}).get("checkpoint_id", ""))
        kill_all(self.campus.state_dir(self._job()["node_id"]))
        until("it runs elsewhere", lambda: self._running() and self._job()["epoch"] > epoch, self.story)
        book = self.book()
        until("it goes on", lambda: len(self.book()) > len(book), self.story)

    def book(self) -> list[tuple[int, float]]:
        """What it has written so far, wherever it is."""
        job = self._job()
        return self._book(job["node_id"], job["epoch"]) if job["node_id"] else []

    def _book(self, node: str, epoch: int) -> list[tuple[int, float]]:
        guest = self.campus.state_dir(node) / "guests" / f"{self.job_id}-e{epoch}"
        try:
            text = (guest / "output" / "book").read_text()
        except OSError:
            return []
        rows = (line.split() for line in text.split("\n")[:-1])
        return [(int(count), float(at)) for count, at in rows]

    def story(self) -> str:
        lines = self.campus.client().why(self.job_id)["story"]
        return "\n".join(f"{line['at']} {line['sentence']}" for line in lines)

    def checkpoints(self) -> list[dict[str, Any]]:
        return list(self.campus.client().checkpoints(self.job_id))

    def _crash(self, crash: Crash, source: str) -> None:
        victim = next(host for host in HOSTS if (host == source) != crash.at_destination)
        time.sleep(crash.after_s)
        self.campus.stop_agent(victim, signal.SIGKILL)
        self.campus.start_agent(victim, **AGENT)

    def _resumed(self, name: str) -> bool:
        try:
            owner_client.resume(self.campus.state_dir(name))
        except owner_client.AgentNotRunning:  # it was killed, and is on its way
            return False
        return True

    def _judge(self, source: str, checkpoint_id: str, seen: list[tuple[int, float]]) -> Move:
        """A step that was done again has another time than was `seen`: the file went back with its guest."""
        book = self.book()
        done = set(book)
        counts = [count for count, _ in book]
        expected = list(range(1, len(counts) + 1))
        (saved,) = (c for c in self.checkpoints() if c["id"] == checkpoint_id)
        before_s = self.seen_until_s
        gaps = [later - earlier for (_, earlier), (_, later) in itertools.pairwise(book) if later > before_s]
        self.seen_until_s = book[-1][1]
        return Move(
            source=source,
            destination=str(self._job()["node_id"]),
            downtime_s=max(gaps),
            shipped_bytes=int(saved["shipped_bytes"]),
            size_bytes=int(saved["size_bytes"]),
            lost_or_repeated=sum(one != other for one, other in zip(counts, expected, strict=True))
            + sum(row not in done for row in seen),
        )

    def _able(self) -> bool:
        nodes = self.campus.client().nodes()
        return len(nodes) == len(HOSTS) and all(node["dumps_guests"] for node in nodes)

    def _phase(self, name: str) -> str:
        return next(str(node["phase"]) for node in self.campus.client().nodes() if node["id"] == name)

    def _running(self) -> bool:
        return bool(self._job()["phase"] == "running")

    def _job(self) -> dict[str, Any]:
        return dict(self.campus.client().job(self.job_id))


@contextmanager
def play(root: Path) -> Iterator[Play]:
    with network(HOSTS) as net:
        campus = LocalCampus(root=root, timing=TIMING, spawn=spawner(net))
        try:
            campus.start_coordinator(GPUNION_COORDINATOR_HOST=net.address)
            for host in HOSTS:
                campus.join(Lab(name=host, lab=host.upper(), model="TEST", memory_gib=8, speed=1.0))
            campus.start_agent(*HOSTS, **AGENT)
            yield Play(campus=campus)
        finally:
            for host in HOSTS:
                kill_all(campus.state_dir(host))
            campus.close(keep_files=True)


def until(what: str, true: Callable[[], bool], more: Callable[[], str] = lambda: "") -> None:
    give_up_s = time.monotonic() + LIMIT_S
    while not true():
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"not within {LIMIT_S:.0f} s: {what}\n{more()}")
        time.sleep(LOOK_S)


def spawner(net: Network) -> Callable[[list[str], Mapping[str, str], Path], Process]:
    def spawn(module: list[str], environment: Mapping[str, str], log_file: Path) -> Process:
        if log_file.stem not in net.namespaces:
            return spawn_module(module, environment, log_file)
        with log_file.open("ab") as log:
            return subprocess.Popen(
                [*net.enter(log_file.stem), sys.executable, "-m", *module],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    return spawn
