"""Shows on a machine with an NVIDIA GPU what tests elsewhere can only rehearse, and prints it as JSON.

    python3 tests/gpu/run_on_gpu.py --wheels DIR [--out FILE]

Needs Python 3.12, PyTorch and a driver; no network, nothing installed. DIR holds the wheels that
`tools/gpu-wheels DIR` fetched elsewhere; they are unpacked into a temporary folder. Exit status 0: everything
that was asked for was seen. `--rehearse` plays it with a made-up driver and proves nothing about a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.gpu.scene import Props

ROOT = Path(__file__).resolve().parents[2]
PREPARED = "GPU_CHECK_PREPARED"
YIELD_WITHIN_S = 2.0
FREE_WITHIN_S = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--park", action="store_true", help="the play in which the guest is parked")
    parser.add_argument("--preempt", action="store_true", help="the play in which an urgent job has its card")
    parser.add_argument("--runtime", default="sandbox", help="docker or podman: the guest in a container")
    parser.add_argument("--rehearse", action="store_true", help="with a made-up driver, on any machine")
    arguments = parser.parse_args()
    if not arguments.rehearse and not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-gpu-") as folder:
        if PREPARED not in os.environ:
            return again_with(arguments.wheels, Path(folder))
        if arguments.rehearse:
            answer = _rehearse(Path(folder), _scene(arguments))
        else:
            answer = show(Path(folder), _scene(arguments), runtime=arguments.runtime)
    text = json.dumps(answer, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(answer["verdicts"].values()) else 1


def again_with(wheels: Path | None, folder: Path) -> int:
    """The same program once more, with the sources and the wheels where Python finds them."""
    paths = [str(ROOT / "src"), str(ROOT)]
    if wheels is not None:
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / "lib")
        paths.append(str(folder / "lib"))
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), PREPARED: "1"}
    return os.spawnve(os.P_WAIT, sys.executable, [sys.executable, *sys.argv], environment)


def _scene(arguments: argparse.Namespace) -> str:
    return "park" if arguments.park else "preempt" if arguments.preempt else ""


def show(folder: Path, scene: str = "", *, runtime: str = "sandbox") -> dict[str, Any]:
    pynvml: Any = importlib.import_module("pynvml")
    from gpunion.agent.compose.runtimes import can_sandbox
    from tests.gpu.described import described
    from tests.gpu.programs import GUEST, OWNER
    from tests.gpu.scene import Props

    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    props = Props(
        guest=GUEST,
        owner=OWNER,
        used_bytes=lambda: int(pynvml.nvmlDeviceGetMemoryInfo(card).used),
        unsandboxed=runtime == "sandbox" and not can_sandbox(),
        runtime=runtime,
    )
    with contextlib.nullcontext() if runtime == "sandbox" else described():
        found = _play(folder, props, scene)
    found["driver"] = str(pynvml.nvmlSystemGetDriverVersion())
    found["sandboxed"] = not props.unsandboxed
    found["verdicts"] = _judge(found)
    return found


def _play(folder: Path, props: Props, scene: str) -> dict[str, Any]:
    from tests.gpu.park_scene import ParkScene
    from tests.gpu.preempt_scene import PreemptScene, RehearsedPreemptScene
    from tests.gpu.scene import Scene

    preempt = RehearsedPreemptScene if props.agent_environment else PreemptScene
    played = {"park": ParkScene, "preempt": preempt}.get(scene, Scene)
    return played(root=folder / "campus", props=props).play()


def _judge(found: dict[str, Any]) -> dict[str, bool]:
    from tests.gpu import park_scene, preempt_scene

    if "preempt" in found:
        return preempt_scene.verdicts(found)
    return park_scene.verdicts(found) if "park" in found else verdicts(found)


def _rehearse(folder: Path, scene: str) -> dict[str, Any]:
    from tests.gpu.rehearsal import rehearsed

    with rehearsed(folder, folder / "campus") as props:
        found = _play(folder, props, scene)
    return {"rehearsed": True, **found, "verdicts": _judge(found)}


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    return {
        "inventory_is_the_drivers": found["gpu"]["declared"] is False,
        "job_sees_exactly_one_gpu": found["job_sees"]["devices"] == 1,
        "telemetry_attributes_the_guest": found["attributed"]["process"]["run_id"] is not None
        and not found["attributed"]["own_work_seen"],
        "auto_yield_within_2_s": found["yield"]["cause"] == "own_work"
        and found["yield"]["after_owner_memory_on_gpu_s"] < YIELD_WITHIN_S,
        "job_went_on_from_its_save": found["resumed_at_step"] > 0,
        "memory_free_within_1_s_of_kill": found["kill"]["memory_free_after_s"] < FREE_WITHIN_S,
    }


if __name__ == "__main__":
    sys.exit(main())
