"""Which files a program must be able to open to compute on one slice of a card.

Besides the card itself these are two capabilities, whose numbers the kernel's driver tells in small files.
"""

from __future__ import annotations

from pathlib import Path

CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
CAPABILITY_NODE = "/dev/nvidia-caps/nvidia-cap{}"
NUMBER = "DeviceFileMinor:"


def slice_nodes(
    minor: int | None, gpu_instance: int | None, compute_instance: int | None, root: Path = CAPABILITIES
) -> list[str]:
    if minor is None:
        return []
    nodes = [f"/dev/nvidia{minor}"]
    if gpu_instance is not None:
        instance = root / f"gpu{minor}" / "mig" / f"gi{gpu_instance}"
        places = [instance]
        if compute_instance is not None:
            places.append(instance / f"ci{compute_instance}")
        numbers = (_number(place / "access") for place in places)
        nodes += [CAPABILITY_NODE.format(number) for number in numbers if number is not None]
    return nodes


def _number(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    words = (line.removeprefix(NUMBER).strip() for line in lines if line.startswith(NUMBER))
    return next((int(word) for word in words if word.isdigit()), None)
