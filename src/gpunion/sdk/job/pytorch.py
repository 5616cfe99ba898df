"""PyTorch training that is saved while it goes on.

    from gpunion.sdk.job import pytorch

    run = pytorch.training(total_steps=10_000, model=model, optimizer=optimizer, scheduler=scheduler)
    for step in run.steps():
        ...  # one step

A save copies the state into pinned host memory on a stream of its own, and a thread writes it down while the
loop goes on: the loop stands still for the copy only. Weights, optimizer, scheduler and the random
generators (PyTorch's on the CPU and on every GPU, Python's, NumPy's where it is used) come back exactly as
they were.
`also` names what else belongs to the state: things with `state_dict()` and `load_state_dict()`.

Under `torch.distributed` every process makes the same calls. All save at the same step: rank 0 hears the
request and the others are told, at every `agree_every`-th step. Rank 0 writes the state; where each process
has a part of it of its own, say `sharded=True`. In a gang each member has a checkpoint of its own: its first
process hears and writes for it, and `agree_every` has to be the same in all of them.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpunion.sdk.job import gang, tensors
from gpunion.sdk.job.training import Alone, Ranks, Training, Write

AGREE_EVERY = 10


def training(
    *,
    total_steps: int,
    model: Any,
    optimizer: Any = None,
    scheduler: Any = None,
    also: Mapping[str, Any] | None = None,
    sharded: bool = False,
    agree_every: int = AGREE_EVERY,
) -> Training:
    """A loop as `gpunion.sdk.job.training` has it, over this state."""
    named = {"model": model, "optimizer": optimizer, "scheduler": scheduler, **(also or {})}
    ranks = together(agree_every)
    parts = {name: part for name, part in named.items() if part is not None}
    state = TorchState(parts, ranks.rank, sharded)
    return Training(
        total_steps=total_steps,
        snapshot=state.snapshot,
        load=state.load,
        ranks=ranks,
        copies_to_host=True,
    )


def together(every: int) -> Ranks:
    """The processes that train together, where `torch.distributed` was set up; else this one alone."""
    group: Any = importlib.import_module("torch.distributed")
    if group.is_available() and group.is_initialized():
        return _Together(every, gang.size())
    return Alone()


class TorchState:
    """What has to be saved of one process, and how it is copied."""

    def __init__(self, parts: Mapping[str, Any], rank: int = 0, sharded: bool = False) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._parts = dict(parts)
        self._rank = rank
        self._writes_all = sharded or rank == 0
        self._reads = rank if sharded else 0
        self._copies: dict[tuple[Any, ...], list[Any]] = {}  # pinned memory, used again at the next save

    def snapshot(self) -> Write:
        copied, wait = self._copy()

        def write(directory: Path) -> float:
            behind_s = wait()
            tensors.write(directory, f"rank-{self._rank}", copied, self._torch)
            return behind_s

        return write

    def load(self, directory: Path) -> None:
        state = tensors.read(directory, f"rank-{self._reads}", self._torch)
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        if self._reads != self._rank:
            state = tensors.read(directory, f"rank-{self._rank}", self._torch)
        self._set_random(state["random"])

    def _copy(self) -> tuple[Any, Callable[[], float]]:
        """The state in host memory, once the second returned thing says so; it returns how long that took."""
        state = {name: part.state_dict() for name, part in self._parts.items()} if self._writes_all else {}
        state["random"] = self._random()
        if not self._torch.cuda.is_available():
            return tensors.replaced(state, self._clone), lambda: 0.0
        cuda = self._torch.cuda
        side, now = cuda.Stream(), cuda.current_stream()
        began, done = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        used: dict[tuple[Any, ...], int] = {}
        side.wait_stream(now)  # what was computed so far is in the copy
        with cuda.stream(side):
            began.record(side)
            copied = tensors.replaced(state, lambda tensor: self._pinned(tensor, used))
            done.record(side)
        now.wait_stream(side)  # and nothing of the next step is

        def wait() -> float:
            done.synchronize()
            return float(began.elapsed_time(done)) / 1000.0

        return copied, wait

    def _pinned(self, tensor: Any, used: dict[tuple[Any, ...], int]) -> Any:
        if not tensor.is_cuda:
            return self._clone(tensor)
        key = (tuple(tensor.shape), tensor.dtype)
        copies, number = self._copies.setdefault(key, []), used.get(key, 0)
        used[key] = number + 1
        if number == len(copies):
            copies.append(self._torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True))
        copies[number].copy_(tensor.detach(), non_blocking=True)
        return copies[number]

    def _clone(self, tensor: Any) -> Any:
        return tensor.detach().cpu().clone()

    def _random(self) -> dict[str, Any]:
        numpy = sys.modules.get("numpy")
        cuda = self._torch.cuda
        return {
            "torch": self._torch.get_rng_state(),
            "cuda": cuda.get_rng_state_all() if cuda.is_available() and cuda.is_initialized() else [],
            "python": random.getstate(),
            "numpy": None if numpy is None else numpy.random.get_state(),
        }

    def _set_random(self, state: Mapping[str, Any]) -> None:
        self._torch.set_rng_state(state["torch"])
        if state["cuda"] and self._torch.cuda.is_available():
            for index, generator in enumerate(state["cuda"][: self._torch.cuda.device_count()]):
                self._torch.cuda.set_rng_state(generator, index)
        random.setstate(state["python"])
        if state["numpy"] is not None:
            importlib.import_module("numpy").random.set_state(state["numpy"])


class _Together:
    """`training.Ranks` over torch.distributed: the processes that share a checkpoint directory. These are all
    of them, or, in a gang whose members are joined in one group, those of this member."""

    def __init__(self, every: int, members: int = 1) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._group: Any = importlib.import_module("torch.distributed")
        own, everybody = int(self._group.get_rank()), int(self._group.get_world_size())
        here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # torchrun says it; without it there is one
        joined = members > 1 and everybody == members * here
        self.count = here if joined else everybody
        self.rank = own % self.count
        self._first = own - self.rank
        self._here: Any = None
        for first in range(0, everybody, self.count) if joined else ():
            group = self._group.new_group(list(range(first, first + self.count)))  # all make all of them
            self._here = group if first == self._first else self._here
        self.every = max(1, every)

    def agree(self, word: int) -> int:
        device = "cuda" if self._group.get_backend() == "nccl" else "cpu"
        said = self._torch.tensor([word], dtype=self._torch.int64, device=device)
        self._group.broadcast(said, src=self._first, group=self._here)
        return int(said.item())
