"""A checkpoint comes from the campus's vault to a machine that has none of it; and by rsync, from a daemon.

    .venv/bin/python bench/afar/run.py [--scale 0.05] [--restores 5]

A real coordinator and a real rsync daemon, both on loopback, so this is what the programs take and not what
a wire gives: there, fewer bytes count as well. Processor seconds are those of both ends together. Ours
verifies every block; rsync verifies whole files.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench" / "checkpoint")]

from keepers import label_of  # noqa: E402
from series import SERIES  # noqa: E402

from gpunion.vault.http.vault_desk import HttpVaultDesk  # noqa: E402
from gpunion.vault.manifest import Manifest  # noqa: E402
from gpunion.vault.stores.folder.store import DirectoryVault  # noqa: E402
from gpunion.vault.transfer.download import restore_directory  # noqa: E402
from gpunion.vault.transfer.ship import ship_directory  # noqa: E402
from gpunion.vault.vault import MirrorVault  # noqa: E402
from tests.integration.coordinator.process import Coordinator  # noqa: E402

MIRROR_BYTES = 100 * 10**9
LISTEN_LIMIT_S = 30.0
CHECKPOINTS = {"lora": 2, "full": 4, "cache": 4}


@dataclass
class Figures:
    took_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    wire_bytes: int = 0


class Counting(HttpVaultDesk):
    counting = threading.Lock()
    fetched_bytes = 0

    def fetch(self, name: str, job_id: str | None = None) -> bytes:
        return self._counted(super().fetch(name, job_id))

    def _counted(self, stored: bytes) -> bytes:
        with self.counting:
            self.fetched_bytes += len(stored)
        return stored


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05, help="1: 400 MB to 1.2 GB")
    parser.add_argument("--restores", type=int, default=5, help="of each, in turn; medians are shown")
    parser.add_argument("--series", nargs="*", default=list(CHECKPOINTS), choices=list(CHECKPOINTS))
    parser.add_argument("--place", type=Path, help="a folder on the disk to measure on")
    arguments = parser.parse_args()
    if shutil.which("rsync") is None:
        print("rsync is not installed: nothing to compare with", file=sys.stderr)
        return 0
    print(f"{'':18}{'MB':>9}{'on the wire':>13}{'took s':>9}{'processor s':>13}")
    for name in arguments.series:
        with tempfile.TemporaryDirectory(dir=arguments.place, prefix="gpunion-bench-") as folder:
            measure(name, Path(folder), arguments.scale, arguments.restores)
    return 0


def measure(name: str, folder: Path, scale: float, restores: int) -> None:
    live = folder / "live"
    live.mkdir()
    coordinator = Coordinator(folder / "campus").start()
    try:
        vault = DirectoryVault(coordinator.data_dir / "vault")
        newest = saved(name, live, vault, scale)
        _, credential = coordinator.enrol("bench")
        desk = Counting(coordinator.url, credential)
        assert coordinator.process is not None
        with rsync_daemon(folder, live) as (url, daemon):
            ours, theirs = Figures(), Figures(wire_bytes=newest.total_bytes)
            for number in range(restores):
                target = folder / f"ours-{number}"
                mirror = folder / f"mirror-{number}"
                desk.fetched_bytes = 0
                timed(ours, coordinator.process.pid, lambda t=target, m=mirror: ours_once(desk, m, newest, t))
                ours.wire_bytes = desk.fetched_bytes
                other = folder / f"rsync-{number}"
                command = ["rsync", "-a", url, f"{other}/"]
                timed(theirs, daemon, lambda c=command: subprocess.run(c, check=True))
                subprocess.run(["diff", "-r", target, other], check=True)
                for made in (target, mirror, other):
                    shutil.rmtree(made)
    finally:
        coordinator.stop()
    show(name, newest.total_bytes, ours, theirs)


def saved(name: str, live: Path, vault: DirectoryVault, scale: float) -> Manifest:
    saves = SERIES[name](live, scale, 10)
    for number in range(CHECKPOINTS[name]):
        next(saves)
        newest = ship_directory(vault, live, label_of(number))
    return newest


def ours_once(desk: HttpVaultDesk, mirror: Path, newest: Manifest, target: Path) -> None:
    vault = MirrorVault(desk, mirror, limit_bytes=MIRROR_BYTES)
    # Only a node that runs the job may hold a checkpoint of it; nothing is collected here.
    vault.hold = lambda job_id, checkpoint_id: nullcontext()  # type: ignore[method-assign]
    restore_directory(vault, newest, target)


@contextmanager
def rsync_daemon(folder: Path, live: Path) -> Iterator[tuple[str, int]]:
    """Its address and process id."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = folder / "rsyncd.conf"
    settings.write_text(
        f"use chroot = no\naddress = 127.0.0.1\nport = {port}\n[live]\npath = {live}\nuid = {os.getuid()}\n"
        f"gid = {os.getgid()}\n"
    )
    daemon = subprocess.Popen(["rsync", "--daemon", "--no-detach", f"--config={settings}"])
    try:
        limit_s = time.monotonic() + LISTEN_LIMIT_S
        while not _listens(port):
            if time.monotonic() > limit_s:
                raise SystemExit("the rsync daemon does not listen")
            time.sleep(0.05)
        yield f"rsync://127.0.0.1:{port}/live/", daemon.pid
    finally:
        daemon.terminate()
        daemon.wait()


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def timed(figures: Figures, other_end: int, work: Callable[[], object]) -> None:
    began_s, spent_s = time.perf_counter(), _processor_s(other_end)
    work()
    figures.took_s.append(time.perf_counter() - began_s)
    figures.processor_s.append(_processor_s(other_end) - spent_s)


def _processor_s(other_end: int) -> float:
    """Of this process, those it started, and the other end with those that it started."""
    here = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = Path(f"/proc/{other_end}/stat").read_text().rpartition(")")[2].split()[11:15]
    there_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return sum(used.ru_utime + used.ru_stime for used in here) + there_s


def show(name: str, total_bytes: int, ours: Figures, theirs: Figures) -> None:
    for title, figures in (("gpunion", ours), ("rsync", theirs)):
        print(
            f"{name:9}{title:9}{total_bytes / 1e6:9.0f}{figures.wire_bytes / 1e6:10.0f} MB"
            f"{statistics.median(figures.took_s):9.3f}{statistics.median(figures.processor_s):13.3f}"
        )
    took, more = statistics.median(theirs.took_s), theirs.wire_bytes / ours.wire_bytes
    ratio = took / statistics.median(ours.took_s)
    print(f"  rsync took {ratio:.2f} times as long, for {more:.2f} times the bytes")


if __name__ == "__main__":
    sys.exit(main())
