"""Which card has which number, over restarts of the agent: guests and owners' words know only numbers.

Kept within one boot. After a reboot no guest is left, and cards may have been put in or taken out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from gpunion.adapters.nvml.words import Card, remembered
from gpunion.files import read_json, write_json
from gpunion.owner_kill.processes import boot_id


class Numbers:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[Card]:
        """In order of their numbers; none where nothing can be told."""
        try:
            record = read_json(str(self._path)) or {}
        except OSError:
            return []
        return remembered(record.get("cards") if record.get("boot") == boot_id() else [])

    def write(self, known: Iterable[Card]) -> None:
        """A full disk costs the numbers after the next restart, and nothing else."""
        rows = [
            {
                "uuid": card.uuid,
                "model": card.model,
                "memory_bytes": card.memory_bytes,
                "speed": card.speed,
                "compute_capability": card.compute_capability,
                "cuda": card.cuda,
                "driver": card.driver,
                "nodes": list(card.nodes),
                "card_uuid": card.card,
            }
            for card in known
        ]
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(str(self._path), {"boot": boot_id(), "cards": rows})
