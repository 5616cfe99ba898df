"""One interruption of a job: why it had to go, what it cost, where it went on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpunion.domain.ids import CheckpointId, JobId, MigrationId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import Counted
from gpunion.domain.system_tier import Tier


class Way(StrEnum):
    """How a guest leaves its GPUs for a job of a higher class."""

    PARK = "park"  # into its machine's memory, where it stands still
    DUMP = "dump"  # all of it as it is, onto the disk
    SAVE = "save"  # its program saves itself
    UNSAVED = "unsaved"  # it is ended: its user allowed that


class MigrationPhase(StrEnum):
    PARKING = "parking"  # on its way into its machine's memory, for a job of a higher class
    PARKED = "parked"  # it stands still there, and others may have its GPUs
    FLUSHING = "flushing"  # the last save is under way
    SEEKING = "seeking"  # state is safe or given up; looking for a place
    RESTARTING = "restarting"
    DONE = "done"
    ABANDONED = "abandoned"  # the job ended first


class Cause(StrEnum):
    OWNER_RECLAIM = "owner_reclaim"
    OWNER_KILL = "owner_kill"
    SICK_GPU = "sick_gpu"
    NODE_LOST = "node_lost"
    LEASE_ENDED = "lease_ended"
    HOMECOMING = "homecoming"
    PREEMPTED = "preempted"  # made room for a job of a higher class
    START_TROUBLE = "start_trouble"
    SELF_SAVED = "self_saved"  # the program saved itself and asked to be run again
    GUEST_LOST = "guest_lost"
    OUTPUT_LOST = "output_lost"  # it had finished, but what it made could not be kept
    SPOILED_SAVE = "spoiled_save"  # its program could not go on from what it had saved
    GANG = "gang"  # another member of its gang had to go


# What nobody said before it happened.
UNANNOUNCED = (Cause.OWNER_KILL, Cause.NODE_LOST, Cause.LEASE_ENDED, Cause.SICK_GPU, Cause.GUEST_LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    id: MigrationId
    job_id: JobId
    source_run: RunId
    source_node: NodeId
    cause: Cause
    phase: MigrationPhase
    started_s: float
    deadline_s: float | None = None
    flush: CheckpointId | None = None  # the last save, where one was asked for
    destination: NodeId | None = None
    reserved_gpus: tuple[int, ...] = ()
    stopped_s: float | None = None  # when work stood still
    resumed_s: float | None = None
    steps_redone: int = 0
    counted: Counted = Counted.STEPS  # what `steps_redone` is counted in
    tier: Tier | None = None  # of what it was resumed from; None: from the beginning, or not yet
    shipped_bytes: int = 0
    fell_back: bool = False  # went on from an earlier checkpoint than the notice allowed for
    room_for: JobId | None = None  # whom it makes room for
    way: Way | None = None  # how it does
    left_s: float | None = None  # when it was off its GPUs for that

    @property
    def went_elsewhere(self) -> bool:
        """Who runs again where it was has not moved."""
        return self.phase is MigrationPhase.DONE and self.destination != self.source_node

    @property
    def left_after_s(self) -> float | None:
        """From being asked to make room to being off its GPUs."""
        return None if self.left_s is None else max(0.0, self.left_s - self.started_s)

    @property
    def downtime_s(self) -> float | None:
        if self.resumed_s is None or self.stopped_s is None:
            return None
        return max(0.0, self.resumed_s - self.stopped_s)
