"""Trains a small network on generated data, and can be interrupted at any step without changing the result.

    python examples/train_numpy.py --steps 2000 --seed 7
    gpunion submit --gpus 1 -- python train_numpy.py --steps 2000 --seed 7 --step-seconds 0.02

The state is everything a step reads and changes: weights, the optimizer's moments, the random generator.
It ends by writing weights.npz and weights.sha256 to GPUNION_OUTPUT_DIR (or the current directory) and by
printing the hash: equal hashes mean weights equal bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

# Before numpy: with several threads a sum's order, and so its last bit, depends on how many cores there are.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from gpunion.sdk.job import training  # noqa: E402

INPUTS, HIDDEN, CLASSES = 16, 64, 4
BATCH = 64
RATE, DECAY, MOMENT = 1e-3, 0.999, 0.9  # Adam

Arrays = dict[str, Any]  # numpy's


class Model:
    """A network with one hidden layer, its optimizer, and the generator its data comes from."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.teacher = np.random.default_rng(seed + 1).normal(size=(INPUTS, CLASSES))  # what is to be learned
        self.weights: Arrays = {
            "w1": self.random.normal(size=(INPUTS, HIDDEN)) / np.sqrt(INPUTS),
            "b1": np.zeros(HIDDEN),
            "w2": self.random.normal(size=(HIDDEN, CLASSES)) / np.sqrt(HIDDEN),
            "b2": np.zeros(CLASSES),
        }
        self.first = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def step(self, number: int) -> float:
        """One batch of fresh data; returns the loss before the update."""
        inputs = self.random.normal(size=(BATCH, INPUTS))
        labels = np.argmax(inputs @ self.teacher, axis=1)
        loss, gradients = self._gradients(inputs, labels)
        for name, gradient in gradients.items():
            self.first[name] = MOMENT * self.first[name] + (1 - MOMENT) * gradient
            self.second[name] = DECAY * self.second[name] + (1 - DECAY) * gradient**2
            first = self.first[name] / (1 - MOMENT ** (number + 1))
            second = self.second[name] / (1 - DECAY ** (number + 1))
            self.weights[name] = self.weights[name] - RATE * first / (np.sqrt(second) + 1e-8)
        return loss

    def _gradients(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[float, Arrays]:
        hidden = np.tanh(inputs @ self.weights["w1"] + self.weights["b1"])
        scores = hidden @ self.weights["w2"] + self.weights["b2"]
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(-np.log(chances[rows, labels] + 1e-12).mean())
        chances[rows, labels] -= 1
        chances /= len(labels)
        back = (chances @ self.weights["w2"].T) * (1 - hidden**2)
        return loss, {
            "w1": inputs.T @ back,
            "b1": back.sum(axis=0),
            "w2": hidden.T @ chances,
            "b2": chances.sum(axis=0),
        }

    def save(self, directory: Path) -> None:
        np.savez(
            directory / "state.npz",
            **self.weights,
            **{f"first_{name}": value for name, value in self.first.items()},
            **{f"second_{name}": value for name, value in self.second.items()},
        )
        (directory / "random.json").write_text(json.dumps(self.random.bit_generator.state))

    def load(self, directory: Path) -> None:
        with np.load(directory / "state.npz") as state:
            for name in self.weights:
                self.weights[name] = state[name]
                self.first[name] = state[f"first_{name}"]
                self.second[name] = state[f"second_{name}"]
        self.random.bit_generator.state = json.loads((directory / "random.json").read_text())

    def digest(self) -> str:
        """SHA-256 of the raw bytes of all weights."""
        hashed = hashlib.sha256()
        for name in sorted(self.weights):
            hashed.update(np.ascontiguousarray(self.weights[name]).tobytes())
        return hashed.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on generated data.")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="wait this long after each step")
    parser.add_argument("--report-every", type=int, default=50, help="print the loss every so many steps")
    options = parser.parse_args()

    model = Model(options.seed)
    run = training.Training(total_steps=options.steps, save=model.save, load=model.load)
    for step in run.steps():
        loss = model.step(step)
        if step % options.report_every == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
        time.sleep(options.step_seconds)

    output = Path(os.environ.get("GPUNION_OUTPUT_DIR", "."))
    np.savez(output / "weights.npz", **model.weights)
    (output / "weights.sha256").write_text(model.digest() + "\n")
    print(f"weights sha256 {model.digest()}", flush=True)


if __name__ == "__main__":
    main()
