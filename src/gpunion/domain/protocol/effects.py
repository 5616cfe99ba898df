"""What is to be done, in the imperative. Performed at least once, after the decision is committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.image import Parcel
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.protocol.orders import Order, StageState, StartRun
from gpunion.domain.protocol.reports import Report
from gpunion.domain.protocol.timers import AgentTimer, AnyTimer, CoordinatorTimer
from gpunion.domain.system_tier import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer(Generic[AnyTimer]):
    """Setting a timer again moves it. Timers outlive a restart: they are committed with the decision."""

    timer: AnyTimer
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer(Generic[AnyTimer]):
    timer: AnyTimer


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOrder:
    """Coordinator only: into the node's outbox."""

    node_id: NodeId
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOrders:
    """Coordinator only: a node that lost its memory or left gets none of what was meant for it."""

    node_id: NodeId


CoordinatorEffect = SetTimer[CoordinatorTimer] | CancelTimer[CoordinatorTimer] | SendOrder | ForgetOrders


@dataclass(frozen=True, slots=True, kw_only=True)
class StartGuest:
    """Fence the vault with the epoch, fetch the code, restore, start."""

    order: StartRun
    lease_until_s: float  # the guest's limits are in force before its first instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAhead:
    """Have the image at hand, if that is easy. No outcome: nobody waits for it."""

    parcel: Parcel


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchState:
    """Have the blocks of a sealed checkpoint lie on this machine. Outcome: StateFetched, or nothing."""

    order: StageState


@dataclass(frozen=True, slots=True, kw_only=True)
class DropState:
    """Nothing of this job's state needs to lie here."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class AskToSave:
    """Outcome: GuestSaved, or nothing; a timer bounds the wait."""

    run_id: RunId
    checkpoint_id: CheckpointId
    final: bool
    by_s: float | None
    at_step: int = 0  # not before it has made so many steps
    whole: bool = False  # another machine could bring it back from a dump, so a session is dumped
    dump: bool = False  # the whole guest, whatever tier its job asked for, where that works


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipCheckpoint:
    """Outcome: CheckpointShipped or CheckpointNotShipped."""

    run_id: RunId
    checkpoint_id: CheckpointId
    step: int
    progress: float
    rate_bps: float
    tier: Tier = Tier.APP
    keep: CheckpointId | None = None  # an earlier one that stays in the vault, and all that come after it


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelShipping:
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipOutput:
    """Outcome: OutputShipped."""

    run_id: RunId
    keep: CheckpointId | None = None  # as of a checkpoint: it may have to run again, from there


@dataclass(frozen=True, slots=True, kw_only=True)
class TellEnd:
    """To a session's program: keep what there is, and end."""

    run_id: RunId
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellNotice:
    run_id: RunId
    deadline_s: float | None  # None: the owner changed their mind
    reason: str = ""  # empty: the owner wants it back


@dataclass(frozen=True, slots=True, kw_only=True)
class TellWindow:
    """What the guest's program is told of its window, so that it can end its piece by itself."""

    run_id: RunId
    subjob: Subjob


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitGuest:
    """Ends the guest at the earlier time even if the agent is dead or stopped by then."""

    run_id: RunId
    lease_until_s: float | None  # None: as it was
    kill_at_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkGuest:
    """Its GPU memory to host memory, and freeze it. Outcome: GuestParked or GuestNotParked."""

    run_id: RunId
    by_s: float  # not done by then: not to be done at all


@dataclass(frozen=True, slots=True, kw_only=True)
class UnparkGuest:
    """The other way round. Outcome: GuestUnparked, or GuestNotUnparked, and it cannot go on."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpParked:
    """A parked guest as it stands, all of it, with its GPU memory where it is. Outcome: GuestSaved, or
    GuestNotDumped; it is parked still, either way."""

    run_id: RunId
    checkpoint_id: CheckpointId
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateGuest:
    """Asks politely (SIGTERM). A timer brings the kill."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class KillGuest:
    """Ends the whole guest now. Outcome: GuestExited with this cause."""

    run_id: RunId
    cause: EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveGuest:
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """Agent only: into the outbox for the coordinator."""

    report: Report


AgentEffect = (
    SetTimer[AgentTimer]
    | CancelTimer[AgentTimer]
    | StartGuest
    | FetchAhead
    | FetchState
    | DropState
    | AskToSave
    | ShipCheckpoint
    | CancelShipping
    | ShipOutput
    | TellNotice
    | TellWindow
    | TellEnd
    | LimitGuest
    | ParkGuest
    | UnparkGuest
    | DumpParked
    | TerminateGuest
    | KillGuest
    | RemoveGuest
    | SendReport
)
