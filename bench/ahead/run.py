"""How fast a state comes from another machine, from a vault in a folder, and from this machine's own disk.

All on this machine: the other one is a thread behind a loopback socket, the folder and both disks are one
disk in the page cache. So this is what the programs take, not what a wire gives. Every block is verified on
every way. Side by side, medians of repeats, CPU seconds of both ends together.

    python bench/ahead/run.py [MIB]
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpunion.agent.checkpoints.directly import DirectSource
from gpunion.agent.machine.caps import Caps
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.passes import issue
from gpunion.domain.resources import GIB, MIB
from gpunion.vault.files_ready import DirectoryReady, restore_from_ready
from gpunion.vault.http.client import TcpPeers
from gpunion.vault.http.running_saves import PeerDesk
from gpunion.vault.http.server import BlockServer
from gpunion.vault.manifest import CheckpointLabel, Manifest
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.ship import ship_directory

REPEATS = 5
KEY = "5a" * 32
JOB = JobId("job")


def main() -> None:
    size_mib = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    with tempfile.TemporaryDirectory(prefix="gpunion-bench-") as folder:
        measure(Path(folder), size_mib)


def measure(root: Path, size_mib: int) -> None:
    vault = DirectoryVault(root / "vault")
    manifest = save(vault, root / "work", size_mib)
    here, there = (DirectoryReady(root / name, limit_bytes=8 * GIB) for name in ("here", "there"))
    fill(there, vault, manifest)
    desk = PeerDesk(there, Caps(), lambda: OwnerState.SHARING)
    desk.welcome(JOB, KEY)
    server = BlockServer(desk, "127.0.0.1", 0)
    server.start()

    def from_machine() -> None:
        given = issue(
            KEY,
            job_id=JOB,
            address=server.address,
            node_id=NodeId("there"),
            bearer=NodeId("here"),
            now_s=time.time(),
        )
        with DirectSource(TcpPeers(), here, JOB, given) as direct:
            restore_from_ready(vault, here, manifest, root / "out", from_peer=direct.read)
        assert direct.direct_bytes >= size_mib * MIB, direct.trouble

    def from_vault() -> None:
        assert restore_from_ready(vault, here, manifest, root / "out") == 0

    def from_here() -> None:
        assert restore_from_ready(vault, there, manifest, root / "out") == manifest.total_bytes

    print(f"{size_mib} MiB that cannot be packed, restored; MiB/s by the clock, and CPU seconds a GiB")
    ways: dict[str, Callable[[], None]] = {
        "from the vault's folder": from_vault,
        "from another machine": from_machine,
        "what lies ready here": from_here,
    }
    for name, way in ways.items():
        wall_s, cpu_s = zip(*(timed(way, root, here) for _ in range(REPEATS)), strict=True)
        speed, cpu = size_mib / statistics.median(wall_s), statistics.median(cpu_s) * 1024 / size_mib
        print(f"  {name:24} {speed:6.0f} MiB/s   {cpu:5.2f} s/GiB")
    server.close()


def timed(way: Callable[[], None], root: Path, here: DirectoryReady) -> tuple[float, float]:
    here.drop(JOB)
    shutil.rmtree(root / "out", ignore_errors=True)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    way()
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


def save(vault: DirectoryVault, work: Path, size_mib: int) -> Manifest:
    work.mkdir()
    with open(work / "state", "wb") as file:
        for _ in range(size_mib):
            file.write(os.urandom(MIB))
    label = CheckpointLabel(
        checkpoint_id="c1", job_id=JOB, epoch=1, step=1, progress=0.0, tier="app", created_s=0.0
    )
    return ship_directory(vault, work, label)


def fill(ready: DirectoryReady, vault: DirectoryVault, manifest: Manifest) -> None:
    for entry in manifest.files:
        for name in entry.blocks:
            ready.put(JOB, name, vault.read_block(name))


if __name__ == "__main__":
    main()
