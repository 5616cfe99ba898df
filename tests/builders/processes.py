"""The truth of guests, and of what they have saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.protocol.effects import (
    AskToSave,
)
from gpunion.domain.protocol.orders import StartRun


@dataclass
class Process:
    """The truth of one guest: it makes a step a second until it is done, asked for its last save, or dead."""

    order: StartRun
    resumed_step: int
    started_s: float
    lease_until_s: float | None
    kill_at_s: float | None = None
    total_steps: float = float("inf")
    stopped_at_step: int | None = None
    alive: bool = True
    stale: bool = False  # was already replaced when its order arrived
    asked: AskToSave | None = None
    frozen_s: float | None = None  # parked since then
    stood_s: float = 0.0  # for how long it was parked before

    def step(self, now_s: float) -> int:
        if self.stopped_at_step is not None:
            return self.stopped_at_step
        until_s = now_s if self.frozen_s is None else self.frozen_s
        return int(min(self.resumed_step + until_s - self.stood_s - self.started_s, self.total_steps))

    def thaw(self, now_s: float) -> None:
        if self.frozen_s is not None:
            self.stood_s += now_s - self.frozen_s
            self.frozen_s = None

    def moments(self) -> Iterator[float]:
        """When something of it happens by itself: done, or ended by its keeper."""
        yield from (at_s for at_s in (self.lease_until_s, self.kill_at_s) if at_s is not None)
        if self.stopped_at_step is None and self.frozen_s is None and self.total_steps != float("inf"):
            yield self.started_s + self.stood_s + self.total_steps - self.resumed_step


@dataclass
class Vault:
    """Seals are refused for an epoch older than the newest that was started."""

    fence: dict[JobId, int] = field(default_factory=dict)
    sealed: dict[JobId, list[tuple[int, CheckpointId]]] = field(default_factory=dict)
    dumps: set[CheckpointId] = field(default_factory=set)  # of those: not for every machine

    def start(self, order: StartRun) -> tuple[int, CheckpointId | None]:
        self.fence[order.job_id] = max(order.epoch, self.fence.get(order.job_id, 0))
        sealed = self.sealed.get(order.job_id, [])
        fit = [(step, one) for step, one in sealed if order.whole or one not in self.dumps]
        return max(fit, default=(0, None))

    def seal(self, job: JobId, epoch: int, step: int, checkpoint: CheckpointId, *, whole: bool) -> bool:
        if epoch < self.fence.get(job, 0):
            return False
        if whole:
            self.dumps.add(checkpoint)
        self.sealed.setdefault(job, []).append((step, checkpoint))
        return True
