"""Chance, in streams that are named: a new draw in one place does not shift the draws of another."""

from __future__ import annotations

import hashlib
import random


class Streams:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._made: dict[str, random.Random] = {}

    def named(self, name: str) -> random.Random:
        """The same stream for the same name; what was drawn from it before stays drawn."""
        stream = self._made.get(name)
        if stream is None:
            stream = self._made[name] = random.Random(keyed_seed(self.seed, name))
        return stream


def keyed_seed(seed: int, name: str) -> int:
    """Not Python's `hash`: that one differs from process to process."""
    key = seed.to_bytes(16, "big", signed=True)
    return int.from_bytes(hashlib.blake2b(name.encode(), key=key, digest_size=8).digest(), "big")
