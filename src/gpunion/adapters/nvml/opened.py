"""Who computes on a GPU, told by the files processes have open.

Where the agent runs in a container, the driver names processes by numbers of another namespace, or names
none. A program that computes with CUDA has the card's own file and that of unified memory open; one that only
asks questions or draws has not both. CUDA opens every card it is shown, so this says more than it should on a
machine with several cards: it is used only where the driver's own list means nothing.
"""

from __future__ import annotations

import os
import re

INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel
UNIFIED_MEMORY = "/dev/nvidia-uvm"
CARD = re.compile(r"/dev/nvidia(\d+)")


def pids_are_ours(namespace: str = "/proc/self/ns/pid") -> bool:
    try:
        return os.readlink(namespace) == INITIAL_PID_NAMESPACE
    except OSError:
        return True


class Openers:
    """Reads every process once per look, however many GPUs are asked about."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = root
        self._by_card: dict[int, list[int]] | None = None

    def forget(self) -> None:
        """Before the next look."""
        self._by_card = None

    def of(self, minor: int) -> list[int]:
        if self._by_card is None:
            self._by_card = self._read()
        return self._by_card.get(minor, [])

    def _read(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for name in os.listdir(self._root):
            if name.isdigit():
                for minor in _cards(os.path.join(self._root, name, "fd")):
                    found.setdefault(minor, []).append(int(name))
        return found


def _cards(directory: str) -> set[int]:
    cards: set[int] = set()
    computes = False
    try:
        descriptors = os.listdir(directory)
    except OSError:
        return set()  # gone meanwhile, or another user's
    for descriptor in descriptors:
        try:
            target = os.readlink(os.path.join(directory, descriptor))
        except OSError:
            continue
        if target == UNIFIED_MEMORY:
            computes = True
        elif (match := CARD.fullmatch(target)) is not None:
            cards.add(int(match[1]))
    return cards if computes else set()
