"""An urgent job is handed in while another has the only GPU: how long until its first instruction?

    python bench/preempt/run.py [--victims save,dump] [--sizes 1,256,1024] [--repeats 3] [--json]

A real coordinator and a real agent on this machine, and victims with so many MiB of state that is noise.
Some save themselves; others, in Podman, were never written for that, and are dumped with CRIU (as root; where
that cannot be, they are skipped by name). Beside it, in the same run, what people do without preemption: the
other job is stopped and handed in again. Met when each urgent job begins within the victim's own save and a
second, or its dump and three seconds, and no step is lost or repeated. Exit 0 when it is met. The folder it
works in is removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from gpunion.adapters.runtimes.podman.probing import no_means  # noqa: E402
from gpunion.cli.demo.campus import Lab, LocalCampus  # noqa: E402

BARS_S = {"save": 1.0, "dump": 3.0}  # beside the victim's own save, or its dump
STEP_S = 0.2
WORKS_S = 3.0  # for which a victim works before anybody wants its place
LIMIT_S = 300.0
LOOK_S = 0.05
AGENT = {"GPUNION_RUNTIME": "podman"}
VICTIM = """
import os, time
from gpunion.sdk.job import training
count = [0]
noise = os.urandom({size_bytes})
def save(folder):
    began_s = time.monotonic()
    (folder / "count").write_text(str(count[0]))
    (folder / "noise").write_bytes(noise)
    print("saved", time.monotonic() - began_s, flush=True)
def load(folder):
    count[0] = int((folder / "count").read_text())
for step in training.Training(total_steps=10**6, save=save, load=load).steps():
    assert count[0] == step, f"step {{step}}, but {{count[0]}} were counted"
    count[0] += 1
    print("step", step, flush=True)
    time.sleep({step_s})
"""
WHOLE = """
import os, time
noise = os.urandom({size_bytes})
book = open("/gpunion/output/book", "w")
step = 0
while True:
    book.write(f"{{step}}\\n")
    book.flush()
    step += 1
    time.sleep({step_s})
"""
URGENT = "import time; print('began', time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    victim: str  # how it leaves
    how: str
    size_mib: int
    began_after_s: float
    save_s: float | None  # as the victim's program says, or for how long it stood still to be dumped
    steps_lost: int

    @property
    def met(self) -> bool:
        known = self.save_s is not None and self.began_after_s <= self.save_s + BARS_S[self.victim]
        return known and not self.steps_lost


class Play:
    def __init__(self, campus: LocalCampus, victim: str) -> None:
        self.campus = campus
        self.victim = victim

    def preempt(self, size_mib: int) -> Taken:
        victim = self._victim(size_mib)
        began_after_s = self._urgent()
        self._until(lambda: self._job(victim)["phase"] == "running" and self._job(victim)["epoch"] == 2)
        done = len(self._steps(victim))
        self._until(lambda: len(self._steps(victim)) > done)
        steps = self._steps(victim)
        lost = sum(one["steps_redone"] for one in self._job(victim)["migrations"])
        lost += sum(after != before + 1 for before, after in pairwise(steps))  # left out, or made again
        save_s = self._save_s(victim)
        self._stop(victim)
        return Taken(
            victim=self.victim,
            how="preempted",
            size_mib=size_mib,
            began_after_s=began_after_s,
            save_s=save_s,
            steps_lost=lost,
        )

    def _save_s(self, victim: str) -> float:
        if self.victim == "save":
            return self._said(victim, "saved")[0]
        (dump,) = (one for one in self.campus.client().checkpoints(victim) if one["final"])
        assert dump["tier"] == "system", dump
        return float(dump["stall_s"])

    def requeue(self, size_mib: int) -> Taken:
        victim = self._victim(size_mib)
        done = len(self._steps(victim))
        handed_in_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.campus.client().stop(victim)
        began_after_s = self._urgent(handed_in_s)
        lost = done
        self._stop(self._victim(size_mib))  # once more, from its beginning
        return Taken(
            victim=self.victim,
            how="deleted",
            size_mib=size_mib,
            began_after_s=began_after_s,
            save_s=None,
            steps_lost=lost,
        )

    def _victim(self, size_mib: int) -> str:
        program = VICTIM if self.victim == "save" else WHOLE
        program = program.format(size_bytes=size_mib * 1024**2, step_s=STEP_S)
        victim = self._submit("victim", program, "low", memory=f"{2 * size_mib + 256}MiB")
        self._until(lambda: len(self._steps(victim)) * STEP_S >= WORKS_S)
        return victim

    def _urgent(self, since_s: float | None = None) -> float:
        since_s = time.clock_gettime(time.CLOCK_BOOTTIME) if since_s is None else since_s
        urgent = self._submit("urgent", URGENT, "high", memory="64MiB")
        self._until(lambda: self._said(urgent, "began"))
        return self._said(urgent, "began")[0] - since_s

    def _submit(self, name: str, program: str, priority: str, *, memory: str) -> str:
        job = {
            "name": name,
            "command": ["python" if self.victim == "save" else "/usr/bin/python3", "-c", program],
            "priority": priority,
            "resources": {"gpus": 1, "cpus": 0.2, "memory": memory},
            "checkpoint": {"max_interval_s": 3600.0},
        }
        if self.victim == "dump" and name == "victim":
            job["checkpoint"] = {"tier": "system", "max_interval_s": 3600.0}
        return str(self.campus.client().submit(job)["job"]["id"])

    def until_it_dumps(self) -> None:
        self._until(lambda: all(node["dumps_guests"] for node in self.campus.client().nodes()))

    def _stop(self, job_id: str) -> None:
        self.campus.client().stop(job_id)
        self._until(lambda: self._job(job_id)["ended_at"] is not None)

    def _job(self, job_id: str) -> dict[str, Any]:
        return self.campus.client().job(job_id)

    def _said(self, job_id: str, word: str) -> list[float]:
        lines = self._log(job_id).splitlines()
        return [float(line.split()[1]) for line in lines if line.startswith(f"{word} ")]

    def _log(self, job_id: str) -> str:
        """All of it: a page ends where a run does."""
        text, offset = "", 0
        while True:
            page = self.campus.client().logs(job_id, offset=offset, limit=1_000_000)
            text += str(page["text"])
            if page["next_offset"] == offset:
                return text
            offset = page["next_offset"]

    def _steps(self, victim: str) -> list[float]:
        if self.victim == "save":
            return self._said(victim, "step")
        run = f"{victim}-e{self._job(victim)['epoch']}"
        book = self.campus.state_dir("only") / "guests" / run / "output" / "book"
        try:
            return [float(line) for line in book.read_text().split("\n")[:-1]]
        except OSError:
            return []  # it is not there yet

    def _until(self, true: Callable[[], object]) -> None:
        until_s = time.monotonic() + LIMIT_S
        while not true():
            if time.monotonic() > until_s:
                raise TimeoutError("it did not come about in time")
            time.sleep(LOOK_S)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--victims", default="save,dump", help="how they leave: save, dump")
    parser.add_argument("--sizes", default="1,256,1024", help="of the victims' state, in MiB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it started is ended
    taken: list[Taken] = []
    sizes = [int(size) for size in options.sizes.split(",")]
    for victim in options.victims.split(","):
        missing = why_not(victim)
        if missing:
            print(f"skipped: victims that {victim}: {missing}", file=sys.stderr)
        else:
            taken += play(victim, sizes, options.repeats)
    rows = list(_rows(taken))
    met = all(one.met for one in taken if one.how == "preempted")
    if options.json:
        print(json.dumps({"met": met, "rows": rows, "each": [asdict(one) for one in taken]}, indent=1))
    else:
        for row in rows:
            print(row)
        print("met" if met else "NOT met")
    return 0 if met else 1


def why_not(victim: str) -> str:
    if victim == "save":
        return ""
    return no_means() or ("" if shutil.which("podman") else "podman is not installed")


def play(victim: str, sizes: list[int], repeats: int) -> list[Taken]:
    taken: list[Taken] = []
    with tempfile.TemporaryDirectory(prefix="gpunion-preempt-") as folder:
        campus = LocalCampus(root=Path(folder), timing={}, unsandboxed=victim == "save")
        try:
            campus.start_coordinator()
            campus.join(Lab(name="only", lab="", model="TEST", memory_gib=8, speed=1.0))
            campus.start_agent("only", **(AGENT if victim == "dump" else {}))
            one = Play(campus, victim)
            if victim == "dump":
                one.until_it_dumps()
            for size_mib in sizes:
                for _ in range(repeats):
                    taken += [one.preempt(size_mib), one.requeue(size_mib)]
                    for latest in taken[-2:]:
                        began = f"urgent one began after {latest.began_after_s:.2f} s"
                        print(f"{victim}, {size_mib} MiB, {latest.how}: {began}", file=sys.stderr)
        finally:
            campus.close()
    return taken


def _rows(taken: list[Taken]) -> Any:
    for victim, how, size_mib in sorted({(one.victim, one.how, one.size_mib) for one in taken}):
        those = [one for one in taken if (one.victim, one.how, one.size_mib) == (victim, how, size_mib)]
        saves_s = [one.save_s for one in those if one.save_s is not None]
        yield {
            "victim": victim,
            "how": how,
            "size_mib": size_mib,
            "began_after_median_s": round(statistics.median(one.began_after_s for one in those), 2),
            "began_after_most_s": round(max(one.began_after_s for one in those), 2),
            "save_median_s": round(statistics.median(saves_s), 2) if saves_s else None,
            "steps_lost": sum(one.steps_lost for one in those),
        }


if __name__ == "__main__":
    sys.exit(main())
