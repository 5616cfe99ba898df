"""A directory there and back: how fast, in how much memory, and what a sender that was killed sends again.

    python bench/directory/run.py [--mib 512] [--small 1000] [--kill-after 0.4]

A campus of this machine (coordinator and one node), random bytes that nothing can compress, and small files
besides. The sender is killed with SIGKILL when that part of the bytes has arrived; the next try runs the job,
which tells the checksum of what it found and leaves half of it as output. Then once more: nothing should go.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpunion.cli.demo.campus import Lab, LocalCampus

LIMIT_S = 900.0
POLL_S = 0.05
PROGRAM = """
import hashlib, os, pathlib, shutil
digest = hashlib.sha256()
with open("big", "rb") as file:
    while piece := file.read(1 << 20):
        digest.update(piece)
print(digest.hexdigest(), sum(1 for _ in pathlib.Path("small").iterdir()))
size = os.path.getsize("big") // 2
with open("big", "rb") as file, open(os.environ["GPUNION_OUTPUT_DIR"] + "/half", "wb") as half:
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        half.write(piece)
        size -= len(piece)
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=512, help="of random bytes")
    parser.add_argument("--small", type=int, default=1000, help="files of a few bytes")
    parser.add_argument("--kill-after", type=float, default=0.4, help="part of the bytes that arrive first")
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gpunion-bench-directory-"))
    campus = LocalCampus(root=root / "campus")
    try:
        campus.start_coordinator()
        campus.join(Lab(name="a", lab="A", model="BENCH", memory_gib=8, speed=1.0))
        campus.start_agent("a")
        figures = measure(campus, root, arguments)
    finally:
        campus.close()
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(figures, indent=2))
    good = figures["checksum_equal"] and figures["output_equal"] and not figures["again_sent_mib"]
    return 0 if good else 1


def measure(campus: LocalCampus, root: Path, asked: argparse.Namespace) -> dict[str, object]:
    project = root / "project"
    digest = write_project(project, asked.mib, asked.small)
    trees = campus.data_dir / "trees"
    kill_sender(campus, project, trees, asked.kill_after * asked.mib)
    kept_mib = size_mib(trees)
    began_s = time.monotonic()
    ended = run_job(campus, project, root / "results")
    whole_s = time.monotonic() - began_s
    sent_mib = size_mib(trees) - kept_mib
    again = run_job(campus, project, None)
    return {
        "mib": asked.mib,
        "files": asked.small + 2,
        "kept_of_the_killed_send_mib": round(kept_mib),
        "sent_then_mib": round(sent_mib),
        "whole_s": round(whole_s, 1),
        "handed_in_to_started_s": ended["start_s"],
        "again_sent_mib": round(size_mib(trees) - kept_mib - sent_mib),
        "again_handed_in_to_started_s": again["start_s"],
        "checksum_equal": ended["said"].split()[0] == digest,
        "output_equal": same_half(project / "big", root / "results" / "half"),
        "client_peak_mb": ended["peak_mb"],
        "coordinator_peak_mb": peak_mb(campus.coordinator.pid),
        "agent_peak_mb": peak_mb(campus.agent("a").pid),
        "load_per_core": round(os.getloadavg()[0] / (os.cpu_count() or 1), 1),
    }


def write_project(project: Path, mib: int, small: int) -> str:
    (project / "small").mkdir(parents=True)
    for number in range(small):
        (project / "small" / str(number)).write_text(f"file {number}\n")
    (project / "job.py").write_text(PROGRAM)
    digest = hashlib.sha256()
    with open(project / "big", "wb") as file:
        for _ in range(mib):
            piece = os.urandom(1 << 20)
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def command(campus: LocalCampus, *words: str) -> list[str]:
    return [sys.executable, "-m", "gpunion", *words, "--url", campus.url, "--token", campus.token]


def kill_sender(campus: LocalCampus, project: Path, trees: Path, until_mib: float) -> None:
    words = [*command(campus, "submit", "--gpus", "0"), "--", "true"]
    sender = subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until_s = time.monotonic() + LIMIT_S
    while sender.poll() is None and size_mib(trees) < until_mib and time.monotonic() < until_s:
        time.sleep(POLL_S)
    sender.send_signal(signal.SIGKILL)
    sender.wait()


def run_job(campus: LocalCampus, project: Path, results: Path | None) -> dict[str, object]:
    words = ["run", "--gpus", "0", "--json", *(["--output", str(results)] if results else [])]
    process = subprocess.Popen(
        [*command(campus, *words), "--", "python", "job.py"], cwd=project, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    told = [json.loads(line) for line in said.splitlines()]
    job = campus.client().job(next(line["job"]["id"] for line in told if line["type"] == "submitted"))
    run = job["runs"][-1]
    output = "".join(line["text"] for line in told if line["type"] == "output")
    start_s = seconds(run["started_at"]) - seconds(job["submitted_at"])
    return {"said": output, "start_s": round(start_s, 1), "peak_mb": round(usage.ru_maxrss * 1024 / 1e6)}


def seconds(moment: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp()


def size_mib(folder: Path) -> float:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except FileNotFoundError:
                continue
    return total / 2**20


def same_half(whole: Path, half: Path) -> bool:
    left = whole.stat().st_size // 2
    if half.stat().st_size != left:
        return False
    with open(whole, "rb") as one, open(half, "rb") as other:
        while left > 0:
            size = min(left, 1 << 20)
            if one.read(size) != other.read(size):
                return False
            left -= size
    return True


def peak_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return round(int(found[1]) * 1024 / 1e6) if found else 0


if __name__ == "__main__":
    sys.exit(main())
