"""What three kinds of programs leave in their checkpoint directory, save after save."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy

CHUNK = 2 * 1024**2  # parameters to a task: small enough to share out, large enough to be worth it
LEARNING_RATE, BETA_1, BETA_2, EPSILON = (numpy.float32(value) for value in (1e-4, 0.9, 0.999, 1e-8))


class Adam:
    """Real optimiser steps, on gradients whose scale differs from parameter to parameter.

    It begins where Adam is after a long time: both moments at their long-term distribution.
    """

    def __init__(self, parameters: int, seed: int) -> None:
        self._random = [numpy.random.default_rng([seed, chunk]) for chunk in range(-(-parameters // CHUNK))]
        self.weights = numpy.empty(parameters, "f4")
        self.first = numpy.empty(parameters, "f4")
        self.second = numpy.empty(parameters, "f4")
        self._scale = numpy.empty(parameters, "f4")
        self._share_out(self._begin)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self._share_out(self._step)

    def _share_out(self, work: object) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(work, range(len(self._random))))  # type: ignore[arg-type]

    def _begin(self, chunk: int) -> None:
        part, random = slice(chunk * CHUNK, (chunk + 1) * CHUNK), self._random[chunk]
        size = self.weights[part].size
        normal = lambda: random.standard_normal(size, dtype="f4")  # noqa: E731
        scale = numpy.exp(normal()) * numpy.float32(1e-3)
        self._scale[part] = scale
        self.weights[part] = normal() * numpy.float32(0.02)
        self.first[part] = normal() * scale * numpy.sqrt((1 - BETA_1) / (1 + BETA_1))
        spread = numpy.sqrt(2 * (1 - BETA_2) / (1 + BETA_2))
        self.second[part] = scale * scale * (1 + spread * normal()).clip(0.1)

    def _step(self, chunk: int) -> None:
        part, random = slice(chunk * CHUNK, (chunk + 1) * CHUNK), self._random[chunk]
        first, second = self.first[part], self.second[part]
        gradient = random.standard_normal(first.size, dtype="f4")
        gradient *= self._scale[part]
        first *= BETA_1
        first += (1 - BETA_1) * gradient
        gradient *= gradient
        second *= BETA_2
        second += (1 - BETA_2) * gradient
        self.weights[part] -= LEARNING_RATE * first / (numpy.sqrt(second) + EPSILON)


def full_training(live: Path, scale: float, steps: int) -> Iterator[None]:
    """100 M parameters in single precision, weights and both moments: 1.2 GB, all of it changing."""
    adam = Adam(int(100e6 * scale), seed=1)
    while True:
        _write(live / "model.bin", adam.weights)
        _write(live / "optimizer.bin", adam.first, adam.second)
        yield
        adam.steps(steps)


def low_rank(live: Path, scale: float, steps: int) -> Iterator[None]:
    """A frozen base of 400 MB, written once, and adapters of 1.5 % that are saved again and again."""
    base = Adam(int(100e6 * scale), seed=2).weights
    adapter = Adam(int(0.5e6 * scale), seed=3)
    _write(live / "base.bin", base)
    while True:
        _write(live / "adapter.bin", adapter.weights, adapter.first, adapter.second)
        yield
        adapter.steps(steps)


def low_rank_in_one_file(live: Path, scale: float, steps: int) -> Iterator[None]:
    """The same by a program that writes base and adapters into one file, anew every time."""
    base = Adam(int(100e6 * scale), seed=2).weights
    adapter = Adam(int(0.5e6 * scale), seed=3)
    while True:
        _write(live / "model.bin", base, adapter.weights, adapter.first, adapter.second)
        yield
        adapter.steps(steps)


def dataset_cache(live: Path, scale: float, steps: int) -> Iterator[None]:
    """Token ids in shards of 8 MB: two more with every save, one that is appended to, and an index."""
    random = numpy.random.default_rng(4)
    tokens = int(4e6 * scale)
    shards = 0

    def more(count: int) -> bytes:
        return numpy.minimum(random.zipf(1.3, count), 50_000).astype("u2").tobytes()

    while True:
        for _ in range(12 if shards == 0 else 2):
            (live / f"shard-{shards:04d}.bin").write_bytes(more(tokens))
            shards += 1
        with open(live / "open.bin", "ab") as shard:
            shard.write(more(tokens // 4))
        with open(live / "index.jsonl", "a") as index:
            index.write(json.dumps({"shards": shards, "tokens": tokens}) + "\n")
        yield


SERIES = {
    "full": full_training,
    "lora": low_rank,
    "lora-one-file": low_rank_in_one_file,
    "cache": dataset_cache,
}


def _write(path: Path, *arrays: numpy.ndarray) -> None:
    """As careful programs do: under another name first."""
    other = path.with_suffix(".tmp")
    with open(other, "wb") as file:
        for array in arrays:
            array.tofile(file)
    other.rename(path)
