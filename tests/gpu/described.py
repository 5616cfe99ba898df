"""The GPU described to container engines, where NVIDIA's toolkit has not done it: its device files only."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from gpunion.adapters.runtimes.containers.gpus import CDI_DIRECTORIES, CDI_KIND

DESCRIPTION = Path("/etc/cdi/gpunion-test.json")
DEVICE_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")


@contextlib.contextmanager
def described() -> Iterator[None]:
    if any(Path(folder).is_dir() and any(Path(folder).iterdir()) for folder in CDI_DIRECTORIES):
        yield
        return
    nodes = [{"path": f"/dev/{name}"} for name in DEVICE_FILES if os.path.exists(f"/dev/{name}")]
    card = {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, *nodes]}}
    DESCRIPTION.parent.mkdir(parents=True, exist_ok=True)
    DESCRIPTION.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": CDI_KIND, "devices": [card]}))
    try:
        yield
    finally:
        DESCRIPTION.unlink()
