"""An agent's own view: its guests, and who has the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import Counted
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.use import RunUse
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.nodes.withheld import HoldCause, WithheldGpu
from gpunion.domain.resources import Grant
from gpunion.domain.system_tier import Tier


class GuestPhase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"  # asked or made to go
    SHIPPING = "shipping"  # gone; its last state or output is on its way
    ENDED = "ended"


_LIVING = frozenset({GuestPhase.STARTING, GuestPhase.RUNNING, GuestPhase.ENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A save that was asked for and is not yet durable."""

    checkpoint_id: CheckpointId
    final: bool
    rate_bps: float
    saved: bool = False  # the program has written it; it is being shipped
    step: int = 0
    progress: float = 0.0
    tier: Tier = Tier.APP
    tier_why: str = ""
    said: str = ""  # by its program, or where it is to be kept: why it could not, so far
    at_step: int = 0
    dump: bool = False  # of the whole guest, whatever tier its job asked for
    saved_for: EndReason | None = None  # what would end it else, where nobody but its agent asked for it
    told: bool = False  # that the program has written it
    saved_s: float = 0.0
    stall_s: float = 0.0
    capture_s: float = 0.0
    size_bytes: int = 0  # about what is to be sent of it, where that is known beforehand
    counted: Counted = Counted.STEPS


class Parking(StrEnum):
    """A guest whose GPU memory is in host memory: it keeps all it has and runs nowhere."""

    PARKING = "parking"  # on its way there; still on its GPUs
    PARKED = "parked"  # frozen, nothing of it on a GPU
    UNPARKING = "unparking"  # on its way back, on its GPUs again


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    run_id: RunId
    job_id: JobId
    epoch: int
    grant: Grant
    phase: GuestPhase
    name: str = ""
    user: str = ""
    lab: str = ""
    saving: Saving | None = None
    own_saves: int = 0  # checkpoints the agent took by itself; numbers the next one
    final_saved: bool = False
    saved_for: EndReason | None = None  # as that last save was
    end_cause: EndReason | None = None  # set by who decided to end it, before it is gone
    exit_code: int | None = None
    last_step: int = 0
    restore: CheckpointId | None = None  # the least it goes on from
    restore_step: int = 0
    came_s: float = 0.0
    leave_by_s: float | None = None  # the terms let it stay no longer than this
    end_detail: str = ""  # of a program that failed, while what it has made is on its way
    leave_why: str = ""
    parking: Parking | None = None
    parked_s: float = 0.0  # since when it is parked
    parked_bytes: int = 0  # of the machine's memory, for what it had on its GPUs
    # Who has its GPUs: it is parked, or on its way there, for a job and not for its owner, until it is told.
    room_for: JobId | None = None
    park_by_s: float = 0.0  # the agent's own limit for that way
    overstepped: bool = False  # it took more than the terms lend, so no change of them lets it stay
    in_gang: bool = False  # others wait for it at every step
    keep: CheckpointId | None = None  # of a gang: what all its members would go on from
    subjob: Subjob | None = None  # of a job that runs in windows
    began_s: float | None = None  # when its program did, there
    seen: Seen | None = None  # what this piece of it was like so far
    whole: bool = False  # another machine could bring it back from a dump
    session: bool = False  # somebody works in it
    used: RunUse | None = None  # by its end

    @property
    def living(self) -> bool:
        return self.phase in _LIVING

    @property
    def hard_end_s(self) -> float | None:
        """When its window is over and its keeper ends it, whatever it does. While it stands still in memory
        nobody waits for it to go."""
        if self.parked or self.subjob is None or not self.subjob.hard:
            return None
        return self.subjob.ends_s

    @property
    def sends_output(self) -> bool:
        """Its program has ended by itself, and what it made is on its way."""
        return self.phase is GuestPhase.SHIPPING and self.saving is None

    @property
    def parked(self) -> bool:
        """Frozen, with nothing of it on a GPU."""
        return self.parking is Parking.PARKED

    @property
    def gave_place(self) -> bool:
        """To a job: others may have its GPUs and its CPUs. Its memory it keeps."""
        return self.parking is Parking.PARKED and self.room_for is not None


class OwnerState(StrEnum):
    """Who has the machine."""

    SHARING = "sharing"
    PAUSED = "paused"
    RECLAIMING = "reclaiming"
    RECLAIMED = "reclaimed"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The owner's standing word, on the agent's disk."""

    owner_state: OwnerState = OwnerState.SHARING
    asked_s: float = 0.0
    deadline_s: float | None = None
    leaving: bool = False
    killed: bool = False
    cause: HoldCause = HoldCause.OWNER
    detail: str = ""
    when_safe: bool = False  # what is not saved by then is tried again until the deadline
    gpus: tuple[WithheldGpu, ...] = ()  # single GPUs that are not lent, whoever has the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """How long the agent may go on without the coordinator. In memory only: a restarted agent asks anew."""

    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEpoch:
    """The newest epoch this agent has seen of a job; older ones are refused."""

    job_id: JobId
    epoch: int
