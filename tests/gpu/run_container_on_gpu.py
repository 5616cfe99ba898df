"""Shows that a container with a GPU is dumped whole, killed and brought back, and prints it as JSON.

    python3 tests/gpu/run_container_on_gpu.py --wheels DIR [--out FILE] [--as-root]

Needs what run_on_gpu.py needs, and root, Podman, runc and CRIU (`tools/portable-podman` and
`tools/portable-criu` where nothing can be installed). The guest is a training that knows nothing of us, in a
Podman container of the agent's own making. Exit status 0: its losses after the move are those of the same
training left alone. Where NVIDIA's toolkit has not described the GPU to engines, a description of its device
files is written for the time of the run: libraries come from the machine itself, as for every guest without
an image.

`--as-root`: the guest is root inside of its container, and so the user that CRIU is. For machines whose root
may not look at another user's processes (no CAP_SYS_RESOURCE); no agent ever runs a guest like that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.gpu.run_on_gpu import PREPARED, again_with  # noqa: E402

GIB = 1024**3
LIMIT_S = 150.0
STEPS = 240


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--as-root", action="store_true", help="the guest is root inside of its container")
    arguments = parser.parse_args()
    if not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-container-") as folder:
        if PREPARED not in os.environ:
            return again_with(arguments.wheels, Path(folder))
        from tests.gpu.described import described

        with described(), guests_are_root() if arguments.as_root else contextlib.nullcontext():
            answer = show(Path(folder), as_root=arguments.as_root)
    text = json.dumps(answer, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0 if answer.get("identical") else 1


def show(folder: Path, *, as_root: bool) -> dict[str, Any]:
    from gpunion.owner_kill import kill_all

    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "as_root": as_root}
    try:
        _play(folder, found)
    except Exception:
        found["trouble"] = traceback.format_exc(limit=6)[-4000:]
        for log in folder.glob("*/guests/*/log.txt"):
            found[f"log of {log.parent.parent.parent.name}"] = log.read_text(errors="replace")[-1500:]
    finally:
        for machine in ("a", "b"):
            kill_all(folder / machine)
    return found


def guests_are_root() -> contextlib.AbstractContextManager[Any]:
    from gpunion.adapters.runtimes.containers.guest_user import GuestUser
    from gpunion.adapters.runtimes.podman import runtime

    root = GuestUser(inside="0:0", host_id=0, described="root, for this test")
    return mock.patch.object(runtime, "guest_user", return_value=root)


def _play(folder: Path, found: dict[str, Any]) -> None:
    from gpunion.adapters.cuda.hooks import CudaHooks
    from gpunion.adapters.nvml import find_gpus
    from gpunion.adapters.runtimes.podman.runtime import open_podman
    from gpunion.ports.runtime import ExitReason

    gpus = find_gpus({}, folder / "numbers.json")
    here, there = (open_podman(folder / name, hooks=CudaHooks(gpus.device)) for name in ("a", "b"))
    found["runtime"] = here.describe()
    ability = _do(here.ability())
    found["without_gpu"] = ability.why_not or "dumps and restores here"
    alone = _started(here, "alone-e1", 1)
    _wait_for(alone / "losses", STEPS + 1)
    losses = _started(here, "job-e1", 1)
    _wait_for(losses / "losses", STEPS // 2)
    found["dump_s"] = _timed(here.dump("job-e1", folder / "dump", limit_s=LIMIT_S))
    found["dumped_at"] = (losses / "losses").read_bytes().count(b"\n")
    found["dump_bytes"] = sum(path.stat().st_size for path in (folder / "dump").rglob("*") if path.is_file())
    spec = _spec("job-e2", 2)
    paths = _do(there.prepare(spec))
    _do(there.limit(spec.run_id, _boot_s() + 3600, None))
    for target in (paths.output_dir, paths.scratch_dir, paths.checkpoint_dir):
        shutil.copytree(folder / "a" / "guests" / "job-e1" / target.name, target, dirs_exist_ok=True)
    found["kill_s"] = _timed(here.kill("job-e1", ExitReason.STOPPED))
    found["restore_s"] = _timed(there.restore(spec, folder / "dump"))
    _wait_for(paths.output_dir / "losses", STEPS + 1)
    found["losses"] = STEPS
    found["identical"] = (paths.output_dir / "losses").read_bytes() == (alone / "losses").read_bytes()


def _started(runtime: Any, run_id: str, epoch: int) -> Path:
    spec = _spec(run_id, epoch)
    paths = _do(runtime.prepare(spec))
    _do(runtime.limit(run_id, _boot_s() + 3600, None))
    _do(runtime.start(spec))
    return Path(paths.output_dir)


def _spec(run_id: str, epoch: int) -> Any:
    from gpunion.ports.runtime import GuestSpec
    from tests.gpu.state_programs import TRAIN

    variables: dict[str, object] = {
        "DEVICE": "cuda",
        "STEPS": STEPS,
        "PIECE": 1 << 24,
        "WIDTH": 1024,
        "PAUSE": 0.01,
    }
    variables |= {"BALLAST": 2 * GIB, "LOSSES": "/gpunion/output/losses"}
    variables |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PLAIN": 1}
    return GuestSpec(
        run_id=run_id,
        job_id=run_id.partition("-")[0],
        epoch=epoch,
        command=("python3", "-c", TRAIN),
        environment={name: str(value) for name, value in variables.items()},
        gpu_indices=(0,),
        memory_bytes=16 * GIB,
        cpus=4.0,
        resume=epoch > 1,
        work_source=None,
    )


def _wait_for(path: Path, lines: int) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        if time.monotonic() > until_s:
            raise RuntimeError(f"{path.name}: not {lines} lines within {LIMIT_S:.0f} s")
        time.sleep(0.01)


def _timed(work: Coroutine[Any, Any, Any]) -> float:
    began_s = time.monotonic()
    _do(work)
    return round(time.monotonic() - began_s, 3)


def _do(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    sys.exit(main())
