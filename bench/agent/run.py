"""What GPUnion costs: a job's time in its container against a bare `docker run`, and an idle agent.

    python bench/agent/run.py [--pairs 8] [--idle-s 20]

The job is a fixed amount of work for one core. It is run in pairs, one bare and one through a campus of this
machine (coordinator, agent, keeper), in turn, so that a busy neighbour meets both. It measures itself: start
and queue are another question and are shown apart. The ratio is of the fastest of each; noise only adds.
As root without a running Docker one is started for the time of the measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from gpunion.adapters.runtimes.containers.container_command import Engine
from gpunion.adapters.runtimes.containers.host_image import HOST_IMAGE, ensure_host_image, host_places
from gpunion.cli.demo.campus import Lab, LocalCampus

ROOT = Path(__file__).resolve().parents[2]
JOB_LIMIT_S = 120.0
POLL_S = 0.2
RATIO_MAX, RSS_MAX_BYTES, CPU_MAX = 1.02, 80e6, 0.01

# About three seconds of one core: the kind of loop that neither waits nor shares.
WORK = """
import time, hashlib
began, cpu = time.perf_counter(), time.process_time()
digest = b""
for _ in range(6_000_000):
    digest = hashlib.blake2b(digest).digest()
print("measured", time.perf_counter() - began, time.process_time() - cpu, flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    wall_s: float
    cpu_s: float
    whole_s: float  # from asking for it to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    ratio_wall: float
    ratio_cpu: float
    start_and_end_bare_s: float
    start_and_end_gpunion_s: float
    agent_rss_bytes: int
    agent_cpu_share: float
    load_per_core: float  # above 1 the wall ratio tells of the neighbours, and the processor ratio of us
    bare: tuple[Measured, ...]
    gpunion: tuple[Measured, ...]

    @property
    def good(self) -> bool:
        return (
            self.ratio_wall <= RATIO_MAX
            and self.agent_rss_bytes <= RSS_MAX_BYTES
            and self.agent_cpu_share < CPU_MAX
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--idle-s", type=float, default=20.0)
    options = parser.parse_args()
    if not docker_answers():
        return with_own_docker()
    figures = measure(options.pairs, options.idle_s)
    show(figures)
    out = ROOT / "bench" / "out"
    out.mkdir(exist_ok=True)
    (out / "agent.json").write_text(json.dumps(asdict(figures), indent=2) + "\n")
    return 0 if figures.good else 1


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True).returncode == 0


def with_own_docker() -> int:
    if os.environ.get("BENCH_AGENT_TRIED") or os.geteuid() != 0:
        print("bench/agent: Docker does not answer, so there is nothing to measure against. Skipped.")
        return 0
    command = [str(ROOT / "tools" / "with-services"), sys.executable, *sys.argv]
    return subprocess.run(command, env={**os.environ, "BENCH_AGENT_TRIED": "1"}).returncode


def measure(pairs: int, idle_s: float) -> Figures:
    place = Path(tempfile.mkdtemp(prefix="gpunion-bench-"))
    campus = LocalCampus(root=place / "campus", environment={"GPUNION_RUNTIME": "docker"})
    try:
        campus.start_coordinator()
        campus.join(Lab(name="alpha", lab="Alpha", model="A100", memory_gib=80, speed=1.0))
        campus.start_agent("alpha")
        bare: list[Measured] = []
        ours: list[Measured] = []
        for number in range(pairs):
            bare.append(run_bare(place))
            ours.append(run_through(campus))
            print(
                f"  pair {number + 1}: bare {bare[-1].wall_s:.3f} s, GPUnion {ours[-1].wall_s:.3f} s",
                flush=True,
            )
        rss_bytes, share = idle(campus.agent("alpha").pid, idle_s)
    finally:
        campus.close()
        shutil.rmtree(place, ignore_errors=True)
    return Figures(
        ratio_wall=min(run.wall_s for run in ours) / min(run.wall_s for run in bare),
        ratio_cpu=min(run.cpu_s for run in ours) / min(run.cpu_s for run in bare),
        start_and_end_bare_s=median(run.whole_s - run.wall_s for run in bare),
        start_and_end_gpunion_s=median(run.whole_s - run.wall_s for run in ours),
        agent_rss_bytes=rss_bytes,
        agent_cpu_share=share,
        load_per_core=os.getloadavg()[0] / (os.cpu_count() or 1),
        bare=tuple(bare),
        gpunion=tuple(ours),
    )


def run_bare(place: Path) -> Measured:
    """The same programs in the same image, with nothing of ours around."""
    ensure_host_image(Engine("docker", ["docker"]))
    words = ["docker", "run", "--rm", "--network", "none"]
    for source, target in host_places(place):
        words += ["--mount", f"type=bind,source={source},target={target},readonly"]
    began_s = time.monotonic()
    program = [HOST_IMAGE, f"{sys.prefix}/bin/python", "-c", WORK]
    answer = subprocess.run(
        [*words, *program], capture_output=True, text=True, timeout=JOB_LIMIT_S, check=True
    )
    return measured(answer.stdout, time.monotonic() - began_s)


def run_through(campus: LocalCampus) -> Measured:
    began_s = time.monotonic()
    with campus.client() as client:
        resources = {"gpus": 1, "cpus": 1, "memory": "512MiB"}
        job = client.submit({"name": "work", "command": ["python", "-c", WORK], "resources": resources})[
            "job"
        ]
        while client.job(job["id"])["phase"] not in ("succeeded", "failed", "cancelled"):
            if time.monotonic() - began_s > JOB_LIMIT_S:
                raise TimeoutError(f"{job['id']} did not end: {client.why(job['id'])}")
            time.sleep(POLL_S)
        whole_s = time.monotonic() - began_s
        while "measured" not in (said := str(client.logs(job["id"]))):
            if time.monotonic() - began_s > JOB_LIMIT_S:
                raise TimeoutError(f"{job['id']} said nothing: {said}")
            time.sleep(POLL_S)
    return measured(said, whole_s)


def measured(said: str, whole_s: float) -> Measured:
    words = said.partition("measured ")[2].replace("\\n", " ").split()
    return Measured(wall_s=float(words[0]), cpu_s=float(words[1].strip("',}")), whole_s=whole_s)


def idle(pid: int, duration_s: float) -> tuple[int, float]:
    """Memory and share of one core of an agent that has nothing to do but say that it is there."""
    time.sleep(2.0)  # what the last job left to be done
    before, began_s = ticks(pid), time.monotonic()
    time.sleep(duration_s)
    share = (ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began_s)
    status = Path(f"/proc/{pid}/status").read_text()
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return rss_kib * 1024, share


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def show(figures: Figures) -> None:
    print(
        f"job in GPUnion / bare docker run: wall {figures.ratio_wall:.4f}, processor {figures.ratio_cpu:.4f}"
    )
    print(
        f"start and end around the job: bare {figures.start_and_end_bare_s:.2f} s, "
        f"GPUnion {figures.start_and_end_gpunion_s:.2f} s"
    )
    print(
        f"idle agent: {figures.agent_rss_bytes / 1e6:.1f} MB, {figures.agent_cpu_share * 100:.2f} % of a core"
    )
    print(f"load per core during this: {figures.load_per_core:.1f} (alone about 0.5)")
    print(f"{'within' if figures.good else 'NOT WITHIN'} ratio {RATIO_MAX}, 80 MB, 1 %")


if __name__ == "__main__":
    sys.exit(main())
