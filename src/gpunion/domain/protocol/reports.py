"""What an agent tells the coordinator: facts in the past tense, in sequence, at least once."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble, Counted
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.use import RunUse
from gpunion.domain.nodes.signs import Signs
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    run_id: RunId
    job_id: JobId
    epoch: int
    restored: CheckpointId | None
    resumed_step: int
    restore_s: float
    tier: Tier = Tier.APP
    found_bytes: int = 0  # of its state that lay ready on this machine
    direct_bytes: int = 0  # that came straight from where it ran last
    trouble: str = ""  # why no more came from there
    passed_over: str = ""  # places of its that it goes on without for now, and why
    unreadable: str = ""  # newer saves of it, each with what is wrong with it


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    run_id: RunId
    job_id: JobId
    epoch: int
    reason: EndReason
    last_step: int
    exit_code: int | None = None
    output: CheckpointId | None = None
    why: Why | None = None  # a refusal's reason
    detail: str = ""
    at_s: float | None = None  # when it stood still
    saved_for: EndReason | None = None  # what would have ended it, had its agent not asked it to save itself
    seen: Seen | None = None  # of a job that runs in windows: what this piece was like
    kept: str = ""  # until when its machine keeps an output that no place took
    used: RunUse | None = None  # of its machine, where that was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCaptured:
    run_id: RunId
    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    step: int
    progress: float
    stall_s: float
    tier: Tier = Tier.APP
    tier_why: str = ""
    capture_s: float = 0.0  # from the asking to the saved files; 0: as long as it stood still
    size_bytes: int = 0  # of a dump: it may be far more than the job's saves have been so far
    counted: Counted = Counted.STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Of a save that arrived before anybody had to be told that it was on its way."""

    stall_s: float
    capture_s: float
    tier: Tier
    sent_for_s: float
    counted: Counted = Counted.STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDurable:
    run_id: RunId
    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    step: int
    progress: float
    size_bytes: int
    shipped_bytes: int
    final: bool
    elsewhere: str = ""  # why it is not in the first of the job's places
    capture: Capture | None = None  # None: it was reported by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed:
    run_id: RunId
    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    trouble: CheckpointTrouble
    detail: str = ""  # why the whole guest was not dumped, where that was asked for
    places: str = ""  # what the job's places said to it, or its program


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParked:
    """Its GPUs are free; it stands still in the machine's memory until the owner is done."""

    run_id: RunId
    job_id: JobId
    epoch: int
    moved_bytes: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotParked:
    """It has to be saved and moved like any other."""

    run_id: RunId
    job_id: JobId
    epoch: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUnparked:
    """It goes on where it stood still."""

    run_id: RunId
    job_id: JobId
    epoch: int
    parked_s: float
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeGiven:
    """The owner wants the machine back. `leaving`: for good. `gpus`: only these of it."""

    deadline_s: float
    leaving: bool = False
    when_safe: bool = False  # the deadline is only how long saving may take
    gpus: tuple[int, ...] = ()
    cause: HoldCause = HoldCause.OWNER
    detail: str = ""
    parking: tuple[RunId, ...] = ()  # these will be parked, so nobody has to save them


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReclaimed:
    """The owner has the machine: nothing of a guest is left on it. `killed`: without a notice."""

    freed_after_s: float
    killed: bool = False
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaused:
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusKeptFree:
    """Their owner's own program has ended, and they are lent again then, if none follows. None: one has."""

    gpus: tuple[int, ...]
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResumed:
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsChanged:
    """`said`: what changed, in words."""

    terms: Terms
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureForetold:
    """By its owner's terms the machine is lent until then. `because`: why it is not lent at the moment."""

    at_s: float | None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignsShown:
    """Of the owner, at this moment. None: from now on nothing is told of them."""

    signs: Signs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestAskedToGo:
    """The terms let it stay no longer than this; None: it may stay after all."""

    run_id: RunId
    job_id: JobId
    epoch: int
    deadline_s: float | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStaged:
    """What a checkpoint is made of lies on this machine. `fetched_bytes`: what had to be moved for it."""

    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    fetched_bytes: int
    direct_bytes: int = 0  # of these, straight from the machine it runs on
    trouble: str = ""  # why no more of them


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputArrived:
    """What a run made, which its machine had kept since it ended, is durable now."""

    run_id: RunId
    job_id: JobId
    epoch: int
    output: CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLeft:
    pass


Report = (
    RunStarted
    | RunEnded
    | CheckpointCaptured
    | CheckpointDurable
    | CheckpointFailed
    | RunParked
    | RunNotParked
    | RunUnparked
    | NoticeGiven
    | NodeReclaimed
    | NodePaused
    | GpusKeptFree
    | NodeResumed
    | TermsChanged
    | DepartureForetold
    | SignsShown
    | GuestAskedToGo
    | StateStaged
    | OutputArrived
    | NodeLeft
)
