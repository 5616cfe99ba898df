"""One incarnation of a job on one node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.account import Charge
from gpunion.domain.jobs.migration import Way
from gpunion.domain.jobs.use import RunUse
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.resources import Grant


class RunPhase(StrEnum):
    ORDERED = "ordered"
    RUNNING = "running"
    LEAVING = "leaving"  # the last save is asked for; it will not go on here
    STOPPING = "stopping"
    ENDED = "ended"


_ENDED = RunPhase.ENDED  # naming a member of an enumeration takes longer than finding it here


class EndReason(StrEnum):
    FINISHED = "finished"
    FAILED = "failed"  # its own doing: a non-zero exit
    SAVED = "saved"  # saved itself and left
    STOPPED = "stopped"  # by its user, or because a newer epoch replaced it
    WINDOW = "window"  # its window was over
    DEADLINE = "deadline"  # the owner's deadline came
    OUTPUT_LOST = "output_lost"  # finished, but what it made could not be brought to safety
    KILLED_BY_OWNER = "killed_by_owner"
    SICK_GPU = "sick_gpu"  # a GPU of it is out of order
    LEASE_ENDED = "lease_ended"  # the agent lost the coordinator and ended it
    NODE_LOST = "node_lost"  # the coordinator lost the agent and gave it up
    REFUSED = "refused"  # the agent would not start it
    START_FAILED = "start_failed"
    GUEST_LOST = "guest_lost"  # the agent found it dead without a word
    UNKNOWN = "unknown"  # the agent never heard of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: RunId
    job_id: JobId
    node_id: NodeId
    epoch: int
    phase: RunPhase
    grant: Grant
    ordered_s: float
    restored_from: CheckpointId | None = None
    started_s: float | None = None
    resumed_step: int = 0
    ended_s: float | None = None
    end_reason: EndReason | None = None
    last_step: int = 0  # the furthest step known when it ended
    wanted_by_s: float | None = None  # the node's terms let it stay no longer than this
    wanted_why: str = ""
    told_of_s: float | None = None  # the moment it has to be gone by that its user was told of
    disk_short: bool = False  # as far as its user was told of its machine's disk
    disk_told_s: float | None = None  # when that was told the last time
    checkpoints: int = 0  # how many were asked for; numbers the next one
    parking: bool = False  # its agent moves it off its GPUs into memory, or has done so
    parked_s: float | None = None  # since when it stands still there
    charge: Charge | None = None  # what it counts for while it has its GPUs
    over_s: float | None = None  # since when its program is known to have ended; what it made is on its way
    gpus_back: bool = False  # its GPUs are free for others before it has ended
    subjob: Subjob | None = None  # of a job that runs in windows: what it may do before it has to go
    turn_since_s: float | None = None  # since when its turn counts, where that began anew here
    idle_told: bool = False  # of a session: its user was told that it ends soon, since nobody works in it
    end_asked_s: float | None = None  # of a session: since when its program is to save and end
    held_since_s: float | None = None  # since when it has them again, where it had given them away
    ways_failed: tuple[Way, ...] = ()  # it was tried here, and does not leave like that
    parked_bytes: int = 0  # what it had on its GPUs when it was parked here the last time
    output_trouble: str = ""  # why what it made was not taken so far, as far as its user was told
    used: RunUse | None = None  # by its end, where its machine measured it

    @property
    def living(self) -> bool:
        return self.phase is not _ENDED

    @property
    def has_gpus(self) -> bool:
        """Whether what it was granted of them is its own."""
        return self.phase is not _ENDED and not self.gpus_back

    @property
    def held_gpus(self) -> tuple[int, ...]:
        return () if self.gpus_back else self.grant.gpu_indices

    @property
    def gave_place(self) -> bool:
        """It stands still in memory for a job of a higher class, which may have its GPUs and its CPUs."""
        return self.gpus_back and self.parked_s is not None

    @property
    def held_cpus(self) -> float:
        return 0.0 if self.gave_place else self.grant.cpus

    def held_gpu_s(self, until_s: float) -> float:
        """What it has had of its machine by then, since it got it the last time; nothing where it never
        started, or has given it away."""
        since_s = self.started_s if self.held_since_s is None else self.held_since_s
        if since_s is None or self.gave_place:
            return 0.0
        return len(self.grant.gpu_indices) * max(0.0, until_s - since_s)
