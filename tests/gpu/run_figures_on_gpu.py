"""Shows on a machine with an NVIDIA GPU what is told of it, and prints it as JSON.

    python3 tests/gpu/run_figures_on_gpu.py --wheels DIR [--out FILE]

Needs what run_on_gpu.py needs. A guest works half of the time and holds memory: the campus's page, the
machine's own, what the job used by its end, and the minutes that are kept stand beside what the driver says;
of its owner's work the campus is told nothing unless they say so. Exit status 0: all of it was seen.
`--rehearse` plays it with a made-up driver and proves nothing about a GPU.
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
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.gpu.run_on_gpu import PREPARED, again_with  # noqa: E402

WORKS_S, SILENT_S = 25.0, 30.0
REHEARSED_SILENT_S = 12.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--rehearse", action="store_true", help="with a made-up driver, on any machine")
    arguments = parser.parse_args()
    if not arguments.rehearse and not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-figures-") as folder:
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
    from tests.gpu.figures_scene import Card, FiguresScene, verdicts
    from tests.gpu.programs import HALF_BUSY, OWNER
    from tests.gpu.scene import Props

    nvml: Any = importlib.import_module("pynvml")
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    props = Props(
        guest=HALF_BUSY,
        owner=OWNER,
        used_bytes=lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
        unsandboxed=not can_sandbox(),
    )
    card = Card(
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        utilisation=lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        temperature_c=lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        power_w=lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    )
    scene = FiguresScene(root=folder / "campus", props=props, card=card, works_s=WORKS_S, silent_s=SILENT_S)
    found = scene.play()
    found["driver"] = str(nvml.nvmlSystemGetDriverVersion())
    found["sandboxed"] = not props.unsandboxed
    return {**found, "verdicts": verdicts(found)}


def rehearse(folder: Path) -> dict[str, Any]:
    from tests.gpu.figures_scene import Card, FiguresScene, verdicts
    from tests.gpu.programs import REHEARSED_HALF_BUSY
    from tests.gpu.rehearsal import rehearsed
    from tests.unit.nvml.cards import a_card

    made_up = a_card(0)
    card = Card(
        uuid=made_up["uuid"],
        utilisation=lambda: made_up["utilisation"] / 100,
        temperature_c=lambda: float(made_up["temperature"]),
        power_w=lambda: made_up["milliwatts"] / 1000,
    )
    with rehearsed(folder, folder / "campus", guest=REHEARSED_HALF_BUSY) as props:
        scene = FiguresScene(
            root=folder / "campus", props=props, card=card, works_s=0.0, silent_s=REHEARSED_SILENT_S
        )
        found = scene.play()
    return {"rehearsed": True, **found, "verdicts": verdicts(found)}


if __name__ == "__main__":
    sys.exit(main())
