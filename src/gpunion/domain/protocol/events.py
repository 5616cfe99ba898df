"""What can happen, in the past tense: the only thing that makes an engine decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from gpunion.domain.environment import EnvironmentEvent
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.image import ImageEvent
from gpunion.domain.jobs.account import Quota
from gpunion.domain.jobs.checkpoint import CheckpointTrouble, Counted
from gpunion.domain.jobs.job import BidsChanged, JobSpec
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.session import SessionEvent
from gpunion.domain.jobs.use import RunUse
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.signs import Signs
from gpunion.domain.nodes.trust import TrustEvent
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.frames import Finishing
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.reports import Report
from gpunion.domain.protocol.timers import AgentTimer, AnyTimer, CoordinatorTimer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Generic[AnyTimer]):
    timer: AnyTimer


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    job_id: JobId
    spec: JobSpec
    vault_key: str = field(default="", repr=False)  # made by the shell, where the job asks for one
    peer_key: str = field(default="", repr=False)  # likewise; "": its blocks are fetched from the vault only
    session_token: str = field(default="", repr=False)  # likewise, of a session


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStopAsked:
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSet:
    quota: Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJoined:
    """An agent said hello: new, restarted or reconnected. `guests` are the runs it still has."""

    node_id: NodeId
    incarnation: str
    facts: NodeFacts
    guests: tuple[RunId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFellSilent:
    """The shell's lease book ran out. `last_heard_s` starts the fence."""

    node_id: NodeId
    last_heard_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHeard:
    """A silent node sent something again on the same incarnation."""

    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnded:
    node_id: NodeId
    note: Finishing  # its run lives until what it made is where it is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReported:
    node_id: NodeId
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSetAside:
    """Handling it raised: it changed nothing, and nobody meets it again."""

    event: CoordinatorEvent
    because: str
    plainly: bool = False  # nothing more is done than what keeps its jobs and machines apart


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStarted:
    """State was loaded from the store; every lease counts from now."""


CoordinatorEvent = (
    TimerFired[CoordinatorTimer]
    | JobSubmitted
    | JobStopAsked
    | BidsChanged
    | QuotaSet
    | ImageEvent
    | EnvironmentEvent
    | NodeJoined
    | NodeFellSilent
    | NodeHeard
    | ProgramEnded
    | SessionEvent
    | NodeReported
    | TrustEvent
    | EventSetAside
    | CoordinatorStarted
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReceived:
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestStarted:
    run_id: RunId
    restored: CheckpointId | None
    resumed_step: int
    restore_s: float
    tier: Tier = Tier.APP  # of what it was restored from
    found_bytes: int = 0  # of its state that lay ready on this machine
    direct_bytes: int = 0  # that came straight from where it ran last
    trouble: str = ""  # why no more came from there
    passed_over: str = ""  # places of its that it goes on without for now, and why
    unreadable: str = ""  # newer saves of it, each with what is wrong with it


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestStartFailed:
    """`why`: this machine could not have it, and the job is not to blame; or its save could not be read."""

    run_id: RunId
    detail: str
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSaved:
    """The program wrote its files and said so; or all of it was dumped (and stands still, if for good)."""

    run_id: RunId
    checkpoint_id: CheckpointId
    step: int
    progress: float
    stall_s: float
    capture_s: float = 0.0  # from the asking to the saved files; at least as long
    tier: Tier = Tier.APP
    size_bytes: int = 0  # of a dump, all of it
    counted: Counted = Counted.STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestNotDumped:
    """It goes on; its program was asked to save itself instead. One that is parked stands still as before."""

    run_id: RunId
    checkpoint_id: CheckpointId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCouldNotSave:
    """Its program has tried, and says why it could not. Of a last save it tries again."""

    run_id: RunId
    checkpoint_id: CheckpointId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestParked:
    """Its GPUs are free; it stands still in host memory."""

    run_id: RunId
    moved_bytes: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestNotParked:
    """It computes on as if nobody had asked."""

    run_id: RunId
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestUnparked:
    run_id: RunId
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestNotUnparked:
    run_id: RunId
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestExited:
    """`cause` is set where somebody other than the program ended it."""

    run_id: RunId
    exit_code: int | None
    last_step: int
    last_progress: float = 0.0
    cause: EndReason | None = None
    detail: str = ""
    seen: Seen | None = None  # of a job that runs in windows: its steps and its memory
    used: RunUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointShipped:
    run_id: RunId
    checkpoint_id: CheckpointId
    step: int
    progress: float
    size_bytes: int
    shipped_bytes: int
    elsewhere: str = ""  # why it is not in the first of the job's places


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointNotShipped:
    run_id: RunId
    checkpoint_id: CheckpointId
    trouble: CheckpointTrouble
    detail: str = ""  # what the places said


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFetched:
    """What a checkpoint is made of lies on this machine, ahead of its job."""

    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    fetched_bytes: int
    direct_bytes: int = 0  # of these, straight from the machine it runs on
    trouble: str = ""  # why no more of them


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShipped:
    """What the program left in its output directory is durable (or there was nothing, or `detail` says why
    it is not). `hopeless`: no other try and no other machine could keep it. `left_out`: what could not be
    kept of it, in words; the rest is. `kept`: until when it stays on this machine, which sends it later."""

    run_id: RunId
    output: CheckpointId | None
    detail: str = ""
    hopeless: bool = False
    left_out: str = ""
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutputSent:
    """An output that no place took when its run ended, and that this machine kept, is durable now."""

    run_id: RunId
    job_id: JobId
    epoch: int
    output: CheckpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReclaimed:
    """`gpus`: these alone; none named: the whole machine. `when_safe`: every guest goes as soon as what it
    did is durable, and the notice is only how long that may take."""

    notice_s: float
    leaving: bool = False
    when_safe: bool = False
    gpus: tuple[int, ...] = ()
    cause: HoldCause = HoldCause.OWNER
    detail: str = ""
    until_s: float | None = None  # their own work has ended; the GPU is kept free until then


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerPaused:
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerResumed:
    """The owner's own word ends what any cause withheld; any other cause ends only its own."""

    gpus: tuple[int, ...] = ()
    cause: HoldCause = HoldCause.OWNER


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerChangedTerms:
    """The shell has put the new ones into the facts; `said` is what changed, in words."""

    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureForeseen:
    """By the terms the machine is lent until then; None: nobody can say. `because`: why it is not lent."""

    at_s: float | None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignsSeen:
    """Of the owner, and their terms let the campus know of them. None: there is nothing to be told."""

    signs: Signs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestOverstepped:
    """It was seen to take more than the terms lend, where nothing keeps it from doing so."""

    run_id: RunId
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerKilled:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFound:
    """What a restarted agent found of one guest. Not an event by itself."""

    run_id: RunId
    alive: bool
    exit_code: int | None = None
    last_step: int = 0
    last_progress: float = 0.0
    cause: EndReason | None = None
    seen: Seen | None = None  # as of one that has exited
    used: RunUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted:
    found: tuple[GuestFound, ...]
    killed_meanwhile: bool = False  # the owner's kill path ran while no agent listened
    rebooted: bool = False  # since the last commit: times of before the boot cannot be compared with now


AgentEvent = (
    TimerFired[AgentTimer]
    | OrderReceived
    | GuestStarted
    | GuestStartFailed
    | GuestSaved
    | GuestParked
    | GuestNotParked
    | GuestUnparked
    | GuestNotUnparked
    | GuestNotDumped
    | GuestCouldNotSave
    | GuestExited
    | CheckpointShipped
    | CheckpointNotShipped
    | StateFetched
    | OutputShipped
    | KeptOutputSent
    | OwnerReclaimed
    | OwnerPaused
    | OwnerResumed
    | OwnerChangedTerms
    | DepartureForeseen
    | SignsSeen
    | GuestOverstepped
    | OwnerKilled
    | LeaseRenewed
    | AgentStarted
)
