"""Shows on a machine with an NVIDIA GPU what becomes of a program's state, and prints it as JSON.

    python3 tests/gpu/run_state_on_gpu.py --wheels DIR --criu DIR/criu [--out FILE] [--only park,criu,...]

Needs Python 3.12, PyTorch, driver 570 or newer and root; no network, nothing installed. `--wheels` as for
run_on_gpu.py; `--criu` is what `tools/portable-criu DIR` made elsewhere. Exit status 0: everything that was
asked for was seen. `--rehearse PYTHON` plays it on the CPU with a made-up driver and the PyTorch of that
Python, and proves nothing about a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.gpu.run_on_gpu import PREPARED, again_with  # noqa: E402

if TYPE_CHECKING:
    from tests.gpu.state_scene import Stage

FREE_WITHIN_S = 2.0
STALL_SHARE = 0.05
PARTS = ("park", "aside", "criu", "parked-dump", "app", "trainers")
GIB = 1024**3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--criu", default="criu", help="the CRIU to use")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, with commas")
    parser.add_argument("--rehearse", metavar="PYTHON", help="on the CPU, with the PyTorch of this Python")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the folder, in a PID namespace
    arguments = parser.parse_args()
    if not arguments.rehearse and not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-state-") as folder:
        if PREPARED not in os.environ:
            return again_with(arguments.wheels, Path(folder))
        stage = _stage(arguments, arguments.inside or Path(folder))
        if arguments.inside:
            return _inside(stage, arguments)
        answer = show(stage, arguments)
    text = json.dumps(answer, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(answer["verdicts"].values()) else 1


def show(stage: Stage, arguments: argparse.Namespace) -> dict[str, Any]:
    from tests.gpu import state_scene

    small = stage.device == "cpu"
    app: dict[str, Any] = {
        "size": {"WIDTH": 256, "DEPTH": 2, "BATCH": 16}
        if small
        else {"WIDTH": 4096, "DEPTH": 8, "BATCH": 8192},
        "quiet_s": 1.0 if small else 10.0,
        "seconds": 4.0 if small else 46.0,
        "every_s": 1.0 if small else 15.0,
    }
    parked: dict[str, Any] = {"ballast_bytes": GIB // 64 if small else 10 * GIB, "times": 1 if small else 3}
    plays: dict[str, Callable[[], Any]] = {
        "park": lambda: state_scene.park(stage, **parked),
        "aside": lambda: state_scene.park(stage, **parked, aside=True),
        "criu": lambda: _in_namespace(stage, arguments, "criu"),
        "parked-dump": lambda: _in_namespace(stage, arguments, "parked-dump"),
        "app": lambda: state_scene.save_while_training(stage, **app),
        "trainers": lambda: state_scene.trainers(stage),
    }
    answer: dict[str, Any] = {"rehearsed": small, "date": time.strftime("%Y-%m-%d")}
    for name in arguments.only.split(","):
        began_s = time.monotonic()
        try:
            answer[name] = plays[name]()
        except Exception:
            answer[name] = {"trouble": traceback.format_exc(limit=4)[-3000:]}
        answer[name]["part_took_s"] = round(time.monotonic() - began_s, 1)
        print(name, json.dumps(answer[name])[:600], file=sys.stderr, flush=True)
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    answer["verdicts"] = verdicts(answer)
    return answer


def verdicts(answer: dict[str, Any]) -> dict[str, bool]:
    judges: dict[str, Callable[[dict[str, Any]], dict[str, bool]]] = {
        # By the driver alone it takes longer, which is told but not judged.
        "park": lambda found: {"parked_losses_are_identical": found["identical"]},
        "aside": lambda found: {
            "memory_is_free_within_2_s_of_being_asked": all(
                (one["memory_free_after_s"] or 99.0) <= FREE_WITHIN_S for one in found["parks"]
            ),
            "losses_after_stepping_aside_are_identical": found["identical"],
        },
        "criu": lambda found: {"restored_losses_are_identical": found["identical"] and found["gone"]},
        "parked-dump": lambda found: {
            "dumped_as_it_stood_and_losses_are_identical": found["identical"]
            and found["gone"]
            and found["stood_still"]
            and found["came_back"]
        },
        "app": lambda found: {
            "saving_stalls_less_than_5_percent": found["lost_share_at_one_save_a_minute"] < STALL_SHARE
        },
        "trainers": lambda found: {
            f"{name}_goes_on_identically": found[name]["identical"] and found[name]["exit_code"] == 85
            for name in ("huggingface", "lightning")
        },
    }
    said: dict[str, bool] = {}
    for name, judge in judges.items():
        if name in answer:
            said |= {f"{name}_was_played": False} if "trouble" in answer[name] else judge(answer[name])
    return said


def _stage(arguments: argparse.Namespace, folder: Path) -> Stage:
    from gpunion.adapters import cuda
    from tests.gpu.state_scene import Stage

    if arguments.rehearse:
        return _rehearsed(arguments.rehearse, folder)
    pynvml: Any = importlib.import_module("pynvml")
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    return Stage(
        folder=folder,
        device="cuda",
        used_bytes=lambda: int(pynvml.nvmlDeviceGetMemoryInfo(card).used),
        parked_pids=lambda pid: cuda.computing([pid]),
    )


def _rehearsed(python: str, folder: Path) -> Stage:
    from gpunion.adapters.cuda.child import STAND_IN_VARIABLE
    from tests.gpu.state_scene import Stage
    from tests.unit.cuda.fake_cuda import FOLDER_VARIABLE, RUNNING

    fake = folder / "fake-cuda"
    fake.mkdir(exist_ok=True)
    os.environ.update({FOLDER_VARIABLE: str(fake), STAND_IN_VARIABLE: "tests.unit.cuda.fake_cuda"})

    def parked_pids(pid: int) -> tuple[int, ...]:
        if not (fake / str(pid)).exists():
            (fake / str(pid)).write_text(str(RUNNING))
        return (pid,)

    def used_bytes() -> int:
        on_it = [
            path for path in fake.iterdir() if path.name.isdecimal() and path.read_text() == str(RUNNING)
        ]
        return GIB * (1 + len(on_it))

    return Stage(folder=folder, device="cpu", used_bytes=used_bytes, parked_pids=parked_pids, python=python)


def _in_namespace(stage: Stage, arguments: argparse.Namespace, part: str) -> Any:
    criu = arguments.criu if "/" not in arguments.criu else os.path.abspath(arguments.criu)
    words = ["--inside", str(stage.folder), "--criu", criu, "--only", part]
    words += ["--rehearse", arguments.rehearse] if arguments.rehearse else []
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    found = stage.folder / f"{part}.json"
    if not found.exists():
        raise RuntimeError(f"the part in a PID namespace ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(found.read_text())


def _inside(stage: Stage, arguments: argparse.Namespace) -> int:
    from tests.gpu.dump_scene import dump_and_restore, dump_parked

    small, part, criu = stage.device == "cpu", arguments.only, arguments.criu
    try:
        if part == "criu":
            size_bytes = GIB // 64 if small else 2 * GIB
            answer = dump_and_restore(stage, ballast_bytes=size_bytes, criu=criu)
        else:
            size_bytes, stands_s = (GIB // 64, 1.0) if small else (10 * GIB, 20.0)
            answer = dump_parked(stage, ballast_bytes=size_bytes, criu=criu, stands_s=stands_s)
    except Exception:
        answer = {"trouble": traceback.format_exc(limit=3)[-4000:]}
        with contextlib.suppress(OSError):
            logs = [p.read_text(errors="replace")[-1500:] for p in (stage.folder / part).glob("*.log")]
            answer["logs"] = "\n---\n".join(logs)
    (stage.folder / f"{part}.json").write_text(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
