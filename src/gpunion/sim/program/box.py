"""One guest of a machine as its directory and its process are: the truth, whatever anybody believes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.orders import StartRun
from gpunion.sim.program.process import SAVED_RUN_ME_AGAIN, Process


@dataclass(slots=True)
class Box:
    """One guest of a machine, from `prepare` to `remove`."""

    order: StartRun
    node_id: NodeId
    process: Process | None = None
    ended: bool = False
    exit_code: int | None = None
    cause: EndReason | None = None
    last_step: int = 0
    began_s: float = 0.0
    resumed_step: int = 0
    parked: bool = False  # it stands still, with nothing of it on a GPU
    saved: dict[CheckpointId, int] = field(default_factory=dict)  # steps of what its directory holds
    run_id: RunId = field(init=False)
    job_id: JobId = field(init=False)

    def __post_init__(self) -> None:
        self.run_id, self.job_id = self.order.run_id, self.order.job_id

    @property
    def alive(self) -> bool:
        return self.process is not None and not self.ended

    @property
    def step(self) -> int:
        return self.process.step if self.process is not None and not self.ended else self.last_step

    @property
    def told_step(self) -> int:
        """The same, as far as its program says."""
        return 0 if self.process is None else self.process.program.told(self.step)

    @property
    def told_progress(self) -> float:
        return 0.0 if self.process is None else self.process.program.told_progress(self.step)

    def saved_step(self, checkpoint_id: CheckpointId) -> int | None:
        """What its directory holds under this name. One that left with 85 says: all that lies there."""
        if self.ended and self.exit_code == SAVED_RUN_ME_AGAIN:
            return self.saved.get(checkpoint_id, self.last_step)
        return self.saved.get(checkpoint_id)
