"""Shows on a machine with an NVIDIA GPU what is learned of jobs that run in windows, and prints it as JSON.

    python3 tests/gpu/run_windows_on_gpu.py --wheels DIR [--out FILE]

Needs what run_on_gpu.py needs; with a bubblewrap in PATH guests are shut in. A training tells its steps and
its memory, ends its piece before its owner's appointment, and goes on to the weights of one left alone; of a
program that is saved from outside the driver tells the memory; one that wants more than its owner lends of
the card is kept to that, and its end fails no job. Exit status 0: all of it was seen. `--rehearse` plays it
with a made-up driver and proves nothing about a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.gpu.run_on_gpu import PREPARED, again_with  # noqa: E402

if TYPE_CHECKING:
    from tests.gpu.windows_scene import Size

GIB = 1024**3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--rehearse", action="store_true", help="with a made-up driver, on any machine")
    arguments = parser.parse_args()
    if not arguments.rehearse and not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-windows-") as folder:
        if PREPARED not in os.environ:
            return again_with(arguments.wheels, Path(folder))
        began_s = time.monotonic()
        answer = rehearse(Path(folder)) if arguments.rehearse else show(Path(folder))
        answer["took_s"] = round(time.monotonic() - began_s, 1)
    text = json.dumps(answer, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(answer["verdicts"].values()) else 1


def show(folder: Path) -> dict[str, Any]:
    from gpunion.agent.compose.runtimes import can_sandbox
    from tests.gpu.scene import Props
    from tests.gpu.windows_programs import GREEDY, TRAIN, WRAPPED
    from tests.gpu.windows_scene import Size, WindowsScene, verdicts

    props = Props(guest="", owner="", used_bytes=lambda: 0, unsandboxed=not can_sandbox())
    size = Size(
        device="cuda",
        train=TRAIN,
        wrapped=WRAPPED,
        greedy=GREEDY,
        steps=400,
        width=1024,
        held_bytes=3 * GIB,
        lent_bytes=8 * GIB,
        piece_bytes=GIB // 4,
        memory_bytes=16 * GIB,
    )
    found = WindowsScene(root=folder / "campus", props=props, size=size).play()
    pynvml: Any = importlib.import_module("pynvml")
    pynvml.nvmlInit()
    found["driver"] = str(pynvml.nvmlSystemGetDriverVersion())
    return {**found, "verdicts": verdicts(found)}


def rehearse(folder: Path) -> dict[str, Any]:
    from tests.gpu.rehearsal import rehearsed
    from tests.gpu.windows_scene import WindowsScene, verdicts

    with rehearsed(folder, folder / "campus") as props:
        found = WindowsScene(root=folder / "campus", props=props, size=_rehearsed_size()).play()
    return {"rehearsed": True, **found, "verdicts": verdicts(found)}


def _rehearsed_size() -> Size:
    from tests.gpu.windows_programs import GREEDY, REHEARSED_TRAIN, STAND_IN, WRAPPED
    from tests.gpu.windows_scene import Size

    return Size(
        device="cpu",
        train=STAND_IN + REHEARSED_TRAIN,
        wrapped=STAND_IN + WRAPPED,
        greedy=STAND_IN + GREEDY,
        steps=400,
        width=1,
        held_bytes=GIB // 2,  # the made-up driver says that each process has a GiB
        lent_bytes=8 * GIB,
        piece_bytes=GIB // 4,
        memory_bytes=GIB // 4,
    )


if __name__ == "__main__":
    sys.exit(main())
