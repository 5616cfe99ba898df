"""A campus of real processes to which everything happens that can happen, at random, for some minutes.

    .venv/bin/python -m tests.system.soak --minutes 10 --seed 1

Owners come back with and without notice, agents and the coordinator are killed or hang, machines lose their
power or their cable, one of them keeps checkpoints for the others. Jobs of every kind run all the while. What
must hold: no two incarnations of a job at once; no step left out; nobody goes on from before what was
acknowledged as durable; and when all is quiet again every job succeeds. A seed gives the plan, not how it
interleaves.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpunion.agent.owner import client as owner_client
from gpunion.agent.owner.client import OwnerTrouble
from gpunion.sdk.errors import ClientError
from tests.system.cable import Cable
from tests.system.scene import Scene

LABS = ("a", "b", "c", "d", "box")
SHARE_NO_FOLDER = ("b", "d")
JOBS_AT_ONCE = 5
QUIET_LIMIT_S = 240.0
HOST = f"127.79.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"


@dataclass
class Watched:
    """A job, and what was acknowledged of it when: by the machine's clock, which outlives every process."""

    job_id: str
    kind: str
    durable: list[tuple[float, int]] = field(default_factory=list)
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.job.get("phase") in ("succeeded", "failed", "cancelled")


@dataclass
class Soak:
    scene: Scene
    chance: random.Random
    cables: dict[str, Cable]
    jobs: list[Watched] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    down: dict[str, float] = field(default_factory=dict)  # who is away, and until when
    withheld: dict[str, float] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    # --- what happens ----------------------------------------------------------------------------

    def act(self) -> None:
        moves: list[tuple[int, Callable[[str], None]]] = [
            (6, self.reclaim),
            (2, self.take_back_now),
            (2, self.pause),
            (1, self.kill_guests),
            (4, self.kill_agent),
            (2, self.stop_agent),
            (3, self.lose_power),
            (2, self.hang_agent),
            (4, self.cut_cable),
            (3, self.kill_coordinator),
            (1, self.hang_coordinator),
        ]
        move = self.chance.choices([move for _, move in moves], [weight for weight, _ in moves])[0]
        node = self.chance.choice(LABS)
        if node in self.down:
            return
        self.happened[move.__name__] += 1
        with suppress(OwnerTrouble):  # an owner who asks an agent that is just gone asks again
            move(node)

    def reclaim(self, node: str) -> None:
        owner_client.reclaim(self.place(node), self.chance.choice((0.5, 2.0, 5.0, 20.0)))
        self.withheld[node] = self.later(2.0, 12.0)

    def take_back_now(self, node: str) -> None:
        owner_client.reclaim(self.place(node), 0.0)
        self.withheld[node] = self.later(1.0, 6.0)

    def pause(self, node: str) -> None:
        owner_client.pause(self.place(node))
        self.withheld[node] = self.later(1.0, 6.0)

    def kill_guests(self, node: str) -> None:
        owner_client.kill(self.place(node))
        self.withheld[node] = self.later(1.0, 6.0)

    def kill_agent(self, node: str) -> None:
        self.scene.campus.stop_agent(node, signal.SIGKILL)
        self.down[node] = self.later(0.0, 8.0)

    def stop_agent(self, node: str) -> None:
        self.scene.campus.stop_agent(node, signal.SIGTERM)
        self.down[node] = self.later(0.5, 8.0)

    def lose_power(self, node: str) -> None:
        self.scene.campus.lose_power(node)
        self.down[node] = self.later(0.5, 8.0)

    def hang_agent(self, node: str) -> None:
        """Its guests are ended by their keeper when the lease is over; then it wakes up."""
        process = self.scene.campus.agent(node)
        process.send_signal(signal.SIGSTOP)
        wake = threading.Timer(self.chance.uniform(0.5, 9.0), lambda: process.send_signal(signal.SIGCONT))
        wake.start()

    def cut_cable(self, node: str) -> None:
        """For a moment, or for longer than a lease."""
        self.cables[node].cut()
        threading.Timer(self.chance.uniform(0.2, 10.0), self.cables[node].mend).start()

    def kill_coordinator(self, node: str) -> None:
        self.scene.campus.stop_coordinator(signal.SIGKILL)
        time.sleep(self.chance.uniform(0.0, 5.0))
        self.scene.campus.start_coordinator()

    def hang_coordinator(self, node: str) -> None:
        self.scene.campus.coordinator.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 5.0))
        self.scene.campus.coordinator.send_signal(signal.SIGCONT)

    def mend(self, *, all_of_it: bool = False) -> None:
        for node, until_s in list(self.down.items()):
            if all_of_it or time.monotonic() > until_s:
                del self.down[node]
                # Of one that was killed the socket is left, and would be taken for the new one's.
                (self.place(node) / "owner.sock").unlink(missing_ok=True)
                self.start(node)
        for node, until_s in list(self.withheld.items()):
            if node not in self.down and (all_of_it or time.monotonic() > until_s):
                with suppress(OwnerTrouble):
                    owner_client.resume(self.place(node))
                    del self.withheld[node]

    # --- jobs ------------------------------------------------------------------------------------

    def submit(self) -> None:
        kinds: dict[str, dict[str, Any]] = {
            "plain": {},
            "encrypted": {"encrypt": True},
            "kept": {"place": "attic"},
            "twice": {"place": "attic", "replicas": 2},
            "pair": {"gang": 2},
        }
        kind = self.chance.choice(sorted(kinds))
        steps = self.chance.randint(60, 600)
        with suppress(ClientError):  # a gang that finds too few machines is turned away
            job_id = self.scene.submit(steps=steps, step_s=0.05, every_s=1.5, **kinds[kind])
            members = self.job(job_id).get("gang") or {"members": [job_id]}
            self.jobs += [Watched(member, kind) for member in members["members"]]

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.scene.patiently(lambda: self.scene.campus.client().job(job_id))
        return found

    def look(self) -> None:
        for watched in self.jobs:
            if watched.over:
                continue
            watched.job = self.job(watched.job_id)
            at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            step = watched.job["durable"]["step"] if watched.job["durable"] else 0
            if watched.durable and step < watched.durable[-1][1]:
                self.troubles.append(
                    f"{watched.job_id}: the durable step went from {watched.durable[-1][1]} to {step}"
                )
            if not watched.durable or step != watched.durable[-1][1]:
                watched.durable.append((at_s, step))

    # --- what must hold --------------------------------------------------------------------------

    def judge(self) -> None:
        for watched in self.jobs:
            try:
                self.scene.check_trail(watched.job_id)
            except AssertionError as wrong:
                if watched.job.get("runs"):
                    self.troubles.append(f"{watched.job_id} ({watched.kind}): {wrong}")
            self._judge_resumes(watched)
            if watched.job.get("phase") != "succeeded":
                self.troubles.append(
                    f"{watched.job_id} ({watched.kind}) is {watched.job.get('phase')}:\n"
                    + self.scene.story(watched.job_id)
                )
        try:
            self.scene.check_audit()
        except AssertionError as wrong:
            self.troubles.append(f"audit: {wrong}")

    def _judge_resumes(self, watched: Watched) -> None:
        """Whoever began after a step was acknowledged goes on from there or later."""
        first: dict[int, tuple[float, int]] = {}
        for epoch, at_s, step in self.scene.beats(watched.job_id):
            first.setdefault(epoch, (at_s, step))
        for epoch, (began_s, step) in first.items():
            known = max((durable for at_s, durable in watched.durable if at_s < began_s), default=0)
            if step < known:
                self.troubles.append(
                    f"{watched.job_id} ({watched.kind}): epoch {epoch} began at {step}, {known} was durable"
                )

    def start(self, node: str) -> None:
        """Through its cable; some save through the coordinator, as who shares no folder with it does."""
        through = {"GPUNION_VAULT": "campus"} if node in SHARE_NO_FOLDER else {}
        self.scene.campus.start_agent(node, GPUNION_COORDINATOR=self.cables[node].url, **through)

    def place(self, node: str) -> Path:
        return self.scene.campus.state_dir(node)

    def later(self, least_s: float, most_s: float) -> float:
        return time.monotonic() + self.chance.uniform(least_s, most_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where its files and logs are, and stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpunion-soak-") as folder:
        root = arguments.keep or Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        config = root / "campus.toml"
        config.write_text('[places.attic]\nkind = "node"\nnode = "box"\n')
        keeps = f'[keeps]\ndirectory = "{root}/disk"\nlimit = "5 GB"\nport = 8476\nhost = "{HOST}"\n'
        scene = Scene.open(root / "campus", LABS, config=config, settings={"box": keeps})
        port = int(scene.campus.url.rsplit(":", 1)[1])
        soak = Soak(scene, random.Random(arguments.seed), {name: Cable(port) for name in LABS})
        try:
            for name in LABS:
                scene.campus.stop_agent(name)
                soak.start(name)
            return soaked(soak, arguments.minutes)
        finally:
            for cable in soak.cables.values():
                cable.close()
            scene.trail.close()
            scene.campus.close(keep_files=arguments.keep is not None)


def soaked(soak: Soak, minutes: float) -> int:
    until_s = time.monotonic() + 60 * minutes
    while time.monotonic() < until_s:
        if sum(not watched.over for watched in soak.jobs) < JOBS_AT_ONCE:
            soak.submit()
        soak.act()
        for _ in range(soak.chance.randint(2, 12)):
            time.sleep(0.25)
            soak.mend()
            soak.look()
        print(
            f"\r{max(0.0, until_s - time.monotonic()):4.0f} s left, {len(soak.jobs)} jobs, "
            f"{soak.happened.total()} things happened",
            end="",
            file=sys.stderr,
        )
    print("\nall is quiet now", file=sys.stderr)
    until_s = time.monotonic() + QUIET_LIMIT_S
    while not all(watched.over for watched in soak.jobs) and time.monotonic() < until_s:
        soak.mend(all_of_it=True)
        soak.look()
        time.sleep(0.25)
    soak.judge()
    moves = sum(max(0, watched.job.get("epoch", 1) - 1) for watched in soak.jobs)
    print(f"{len(soak.jobs)} jobs ({dict(Counter(w.kind for w in soak.jobs))}), {moves} times begun again")
    print(f"happened: {dict(soak.happened)}")
    for trouble in soak.troubles:
        print(f"WRONG: {trouble}")
    return 1 if soak.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
