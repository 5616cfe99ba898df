"""What a guest asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from gpunion.domain.environment import PackageList
from gpunion.domain.ids import CheckpointId, JobId, MigrationId, NodeId
from gpunion.domain.image import Parcel
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.session import Session, SessionStart
from gpunion.domain.jobs.window import Promise
from gpunion.domain.resources import Request
from gpunion.domain.system_tier import Tier


class Priority(IntEnum):
    LOW = 0
    NORMAL = 1
    HIGH = 2


class JobPhase(StrEnum):
    PENDING = "pending"  # never ran yet
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"  # asked to save because its node is wanted back, or home is free again
    MIGRATING = "migrating"  # off its node, looking for the next one
    STOPPING = "stopping"
    BETWEEN = "between"  # its window is over; it waits for the next one
    FINISHING = "finishing"  # its program has ended, those of its gang's other members have not
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        return self in _OVER

    @property
    def waiting(self) -> bool:
        return self in _WAITING


# Asked several times in every decision; naming a member of an enumeration takes longer than finding it here.
_OVER = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED})
_WAITING = frozenset({JobPhase.PENDING, JobPhase.MIGRATING, JobPhase.BETWEEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWish:
    """How a job wants to be saved. `max_interval_s` bounds what the policy may choose."""

    max_interval_s: float | None = None
    min_interval_s: float = 0.0
    tier: Tier = Tier.APP
    # For programs that cannot be changed: what saves them from outside, or which signal makes them save.
    command: tuple[str, ...] = ()
    signal: str = ""
    encrypt: bool = False

    @property
    def counts_steps(self) -> bool:
        """Saved from outside, how far it is, is told as seconds of work."""
        return not self.command and not self.signal


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWish:
    """How a job that runs in windows wants them."""

    shortest_s: float | None = None  # None: five times what beginning and saving cost it
    learned_vram: bool = True  # what it was seen to need counts, once enough was seen; else what it asked for
    safe_every: int = 1  # steps from one point at which it may be saved cheaply to the next
    longest_s: float | None = None  # it bids for no longer piece
    not_on: tuple[NodeId, ...] = ()
    bids: bool = True  # else it begins nothing until it may again


@dataclass(frozen=True, slots=True, kw_only=True)
class BidsChanged:
    """By the owner of a job that runs in windows: what it may bid for from now on."""

    job_id: JobId
    windows: WindowWish


# Stands between the agent and a program that knows nothing of it; every runtime gives guests this library.
WRAPPER = ("python3", "-m", "gpunion.sdk.job.wrapper")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    name: str
    command: tuple[str, ...]  # empty: what its image's makers meant to be run
    owner: str
    lab: str = ""
    request: Request = field(default_factory=Request)
    environment: tuple[tuple[str, str], ...] = ()
    bundle: str | None = None  # hash of the code that travels with the job
    priority: Priority = Priority.NORMAL
    checkpoint: CheckpointWish = field(default_factory=CheckpointWish)
    expected_s: float | None = None  # the guest's own guess, at reference speed
    finish_within_s: float | None = None  # of its submission; needs `expected_s` to be held to it
    lockfile: str | None = None  # in the directory that travels: packages to be installed for it
    packages: str | None = None  # an environment of the campus's, by its name
    image: str | None = None  # as asked for: a name, or a pinned name; None: whatever a node has
    # In front of its command in an image. None: the image's own ENTRYPOINT; empty: nothing.
    entrypoint: tuple[str, ...] | None = None
    seat: Seat | None = None  # of a member of a gang
    atomizable: bool = (
        False  # it runs in windows: it may be stopped at a safe point, to go on in the next one
    )
    windows: WindowWish = field(default_factory=WindowWish)
    preemptible: bool = False  # what it could not save may be lost where it makes room for a higher class
    # Where its checkpoints lie: sealed in the first, copied to the others. None: the campus's own vault.
    places: tuple[str, ...] = ()
    session: Session | None = None  # somebody works in it; its name is the session's

    @property
    def wrapper(self) -> tuple[str, ...]:
        """What stands in front of its program where that is saved from outside."""
        wish = self.checkpoint
        if wish.counts_steps:
            return ()
        words = [f"--command={word}" for word in wish.command]
        return (*WRAPPER, *(("--signal", wish.signal) if wish.signal else ()), *words, "--")


@dataclass(frozen=True, slots=True, kw_only=True)
class DurablePoint:
    """The newest checkpoint known to be restorable. It moves forward, until one proves to be of no use."""

    checkpoint_id: CheckpointId
    step: int
    progress: float
    at_s: float
    tier: Tier = Tier.APP
    kind: str = ""  # of the machine, where it is a whole guest
    gpu: str = ""  # the model of what it had there, where a driver is behind it: it has to be one like that
    size_bytes: int = 0  # of all its files; 0: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCost:
    """What saving this job has cost so far, smoothed; the policies plan with it."""

    stall_s: float = 1.0  # how long the program stood still for it
    capture_s: float = 0.0  # from asking it to the save on its disk; longer where it saves beside its work
    ship_bytes: int = 64 * 1024**2
    restart_s: float = 5.0

    @property
    def save_s(self) -> float:
        """What a last save takes: nobody goes on beside that one."""
        return max(self.stall_s, self.capture_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoidance:
    """A node that refused or failed a run of this job, and until when not to ask it again."""

    node_id: NodeId
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: JobId
    spec: JobSpec
    phase: JobPhase
    submitted_s: float
    waiting_since_s: float
    epoch: int = 0
    durable: DurablePoint | None = None
    cost: SaveCost = field(default_factory=SaveCost)
    home: NodeId | None = None  # where it was first placed, or last fled from: where homecoming leads
    migration: MigrationId | None = None
    migrations: int = 0
    start_failures: int = 0
    avoid: tuple[Avoidance, ...] = ()
    ended_s: float | None = None
    exit_code: int | None = None
    output: CheckpointId | None = None
    image: Parcel | None = None  # what `spec.image` stood for when it was handed in: that and nothing else
    image_barred: bool = False  # the campus has taken it off its list since
    packages: PackageList | None = None  # what `spec.packages` stood for when it was handed in
    packages_barred: bool = False  # the campus has removed that environment since
    dump_failures: int = 0  # how often in a row its dump did not come to life
    vault_key: str = field(default="", repr=False)  # in hex; only for a job that asked for it. Never shown
    peer_key: str = field(default="", repr=False)  # in hex; the secrets of its runs come from it
    session_token: str = field(default="", repr=False)  # in hex; only of a session
    dumps_given_up: bool = False  # from now on its program saves itself, or it begins anew
    spoiled: tuple[CheckpointId, ...] = ()  # saves that its program could not go on from
    circles: int = 0  # how often in a row it ended at once, "saved, run me again", with nothing done
    vanished: int = 0  # how often in a row its guest or machine was lost, with nothing done
    outputs_lost: int = 0  # how often it had finished, and what it made could not be kept
    went_back: int = 0  # how often in a row it went on from an earlier save for that
    unread: bool = False  # a save of it could not be read once, and lies among the newest in its vault
    # Saves before `durable` that its vault keeps, the newest last: of a gang's member those that all members
    # have; of other jobs only once a save was of no use.
    earlier: tuple[DurablePoint, ...] = ()
    copies: tuple[StateCopy, ...] = ()  # of its state, on nodes it may go to; the latest asked for last
    # Of a job that runs in windows.
    awaits: CheckpointId | None = None  # what its last piece saved, while that is on its way
    promised: Promise | None = None  # the place that is kept for it
    profile: Profile | None = None
    failure: str = ""  # of a gang's member: why its program ended badly, told once all have ended

    @property
    def tier(self) -> Tier:
        return Tier.APP if self.dumps_given_up else self.spec.checkpoint.tier

    @property
    def holds_back(self) -> bool:
        """Its owner lets it begin nothing now. Whom a machine's owner displaced goes on elsewhere."""
        return not self.spec.windows.bids and self.migration is None

    @property
    def session(self) -> SessionStart | None:
        spec, asked = self.spec, self.spec.session
        if asked is None:
            return None
        return SessionStart(
            kind=asked.kind, name=spec.name, token=self.session_token, ssh_keys=asked.ssh_keys
        )

    @property
    def request(self) -> Request:
        """What its next run needs: what was asked for, and for a whole guest a GPU like the one it had. Of
        slices nothing is dumped."""
        needs = self.spec.request
        if self.spec.session is not None:  # where it is not brought back whole its variables are read
            return needs
        if needs.gpus and (self.tier is Tier.SYSTEM or self.dump is not None):
            needs = replace(needs, whole_gpus=True)
        return needs if self.dump is None or not self.dump.gpu else replace(needs, alike=self.dump.gpu)

    def copy_on(self, node_id: NodeId) -> StateCopy | None:
        for copy in self.copies:
            if copy.node_id == node_id:
                return copy
        return None

    def lacking_bytes(self, node_id: NodeId) -> int:
        """What of its newest durable state would have to be moved to a node: all of it, or what has changed
        since a copy was put there. Before the first save nobody knows more than what one ships."""
        whole = self.cost.ship_bytes
        if self.durable is not None and self.durable.size_bytes:
            whole = self.durable.size_bytes
        if self.copies:
            copy = self.copy_on(node_id)
            if copy is not None and copy.there:
                return min(whole, copy.behind_bytes)
        return whole

    @property
    def dump(self) -> DurablePoint | None:
        """The whole guest it has to be brought back from; None where its program reads its own files."""
        whole = self.durable is not None and self.durable.tier is Tier.SYSTEM
        return self.durable if whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCopy:
    node_id: NodeId
    checkpoint_id: CheckpointId  # which one was asked for
    asked_s: float
    asked_bytes: int  # what that was to move
    there: bool = False  # its node has said that it lies there
    behind_bytes: int = 0  # what has been saved since: at most so much of it is another state's
