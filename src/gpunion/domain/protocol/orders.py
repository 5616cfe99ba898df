"""What a coordinator tells an agent: effects on one side, events on the other.

Orders travel in sequence over the channel, at least once; each names its epoch, and an older epoch than
the agent has seen changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.environment import PackageList
from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.image import Parcel
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.session import SessionStart
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.passes import PeerPass
from gpunion.domain.resources import Grant
from gpunion.domain.system_tier import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    run_id: RunId
    job_id: JobId
    epoch: int
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    bundle: str | None
    grant: Grant
    name: str = ""  # who comes, for the owner to see and for the terms to judge
    user: str = ""
    lab: str = ""
    # The least it must go on from. The agent may find a newer one sealed in the vault and use that; but a
    # member of a gang goes on from exactly this, as the others do.
    restore: CheckpointId | None = None
    restore_step: int = 0
    spoiled: tuple[CheckpointId, ...] = ()  # saves that its program could not go on from: not these
    lockfile: str | None = None
    packages: PackageList | None = None  # of an environment of the campus's
    image: Parcel | None = None
    wrapper: tuple[str, ...] = ()  # stands in front of its program, whichever that is
    entrypoint: tuple[str, ...] | None = None  # None: its image's own
    tier: Tier = Tier.APP  # how it is saved, and whether it may be brought back from a dump
    vault_key: str = field(default="", repr=False)  # in hex; what it saves is encrypted with it
    seat: Seat | None = None  # of a member of a gang
    keep: CheckpointId | None = None  # the oldest it might go back to; from it on all stay
    places: tuple[str, ...] = ()  # where its checkpoints lie; none: the campus's own vault
    run_key: str = field(default="", repr=False)  # in hex; who has a pass made with it may fetch its blocks
    source: PeerPass | None = None  # where it ran last, as far as blocks may be fetched from there
    subjob: Subjob | None = None  # of a job that runs in windows
    # Whoever saves it: it may be brought back from a dump here, and be dumped where it stands parked.
    whole: bool = False
    session: SessionStart | None = None  # somebody works in it


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRun:
    run_id: RunId
    job_id: JobId
    epoch: int
    spares_save: bool = False  # what it has saved already is sent all the same: its gang may go on from it


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWindow:
    """From now on this is its window: it gets an end, another one, or none any more."""

    run_id: RunId
    job_id: JobId
    epoch: int
    subjob: Subjob


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCheckpoint:
    """Save now. `final`: the guest leaves afterwards, so it must not go on working."""

    run_id: RunId
    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    final: bool
    by_s: float | None
    rate_bps: float
    at_step: int = 0  # of a gang: not before this step, so that all save the same one
    keep: CheckpointId | None = None  # the oldest it might go back to; from it on all stay
    whole: bool = False  # as when it was started, by what is known now: machines come and go
    dump: bool = False  # all of it as it is, whatever tier its job asked for, where that works


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkRun:
    """Off its GPUs and into memory, since a job of a higher class needs them. Answered with RunParked or
    RunNotParked; who is parked stands still until an UnparkRun, or is dumped as it stands."""

    run_id: RunId
    job_id: JobId
    epoch: int
    room_for: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class UnparkRun:
    """Its GPUs are its own again, and nobody is on them. Answered with RunUnparked as soon as it works. It
    says nothing to one that does not stand still for a job."""

    run_id: RunId
    job_id: JobId
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """Its program is to keep what it has, as what it made, and to end."""

    run_id: RunId
    job_id: JobId
    epoch: int
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchImage:
    """A hint: the job of this run is likely to come, and runs in this image. Nobody waits for it."""

    run_id: RunId
    job_id: JobId
    epoch: int
    parcel: Parcel


@dataclass(frozen=True, slots=True, kw_only=True)
class StageState:
    """A hint too: the job of this run may come. Have this checkpoint of it, or a newer one, lie ready.

    Answered with `StateStaged` when it does; nobody waits for it."""

    run_id: RunId
    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    rate_bps: float  # what it may use of the node's wire; 0: no cap
    places: tuple[str, ...] = ()
    source: PeerPass | None = None  # where its blocks may be fetched from before the vault is asked
    follow: bool = False  # a last save is under way there: what it sends to the vault is fetched on its heels
    base: bool = True  # False: hardly anything of that checkpoint will be in what is saved now


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstageState:
    """The job will not come any more: what lies ready for it goes."""

    run_id: RunId
    job_id: JobId
    epoch: int


Order = (
    StartRun
    | StopRun
    | SetWindow
    | TakeCheckpoint
    | EndSession
    | ParkRun
    | UnparkRun
    | FetchImage
    | StageState
    | UnstageState
)
