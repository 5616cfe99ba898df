"""What crosses the one connection between an agent and the coordinator.

`seq` numbers reports and orders, each side its own, from 1 and without gaps; `ack` is the highest number
taken over for good (committed). Frames may be lost, doubled, late or out of order: the numbers heal that.
`sent_s` is the sender's clock; the receiver learns the skew from it and translates deadlines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpunion.domain.environment import InstalledEnvironment
from gpunion.domain.ids import CheckpointId, NodeId, RunId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.reports import Report
from gpunion.domain.timing import Timing

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    run_id: RunId
    step: int
    progress: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """What a run that has not started yet waits for on its machine."""

    run_id: RunId
    what: str
    done: float | None = None  # how much of it, 0 to 1, where that is known


class SaveStage(StrEnum):
    """What is being done for a save right now."""

    ASKED = "asked"  # its program has not written it yet
    DUMPING = "dumping"  # the whole guest is being written
    WRITTEN = "written"  # it waits to be sent, for the first time or again
    PACKING = "packing"  # it is being set aside, so that the guest may go on
    SENDING = "sending"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveNote:
    """How far a save is that is under way. For people: nothing is decided by it."""

    run_id: RunId
    checkpoint_id: CheckpointId
    stage: str  # a SaveStage, or the word of a newer agent
    for_s: float | None = None  # since its program has written it
    done_bytes: int = 0  # of the total, sent or found to be in the vault already
    total_bytes: int | None = None  # while it is being sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Finishing:
    """A run whose program has ended, while what it made is being sent."""

    run_id: RunId
    trouble: str = ""  # a CheckpointTrouble, or the word of a newer agent: why it was not taken so far
    detail: str = ""  # what its places said


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """One thing of a session's that did not come along, or would not."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNote:
    """What a session's guest says of itself, as far as it is believed."""

    run_id: RunId
    ready: bool = False  # it answers
    idle_s: float = 0.0  # since somebody worked in it, or something of theirs did
    kernels: int = 0
    level: str = ""  # the best it could be kept at by itself: variables, files
    restored: str = ""  # the level at which this run came back; empty: it began here
    saved_ago_s: float | None = None  # since its variables were saved; None: never
    saved_bytes: int | None = None
    missing: tuple[Missing, ...] = ()
    unsaved: tuple[Missing, ...] = ()  # what the last save could not take: a move would cost it
    whole_why_not: str = ""  # what a dump of it would be refused for
    no_ssh: str = ""  # why nobody can enter by ssh
    streams: int = 0  # that lead to it just now


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First frame of every connection. A new `incarnation` means: I remember nothing."""

    node_id: NodeId
    incarnation: str
    facts: NodeFacts
    guests: tuple[RunId, ...]
    ack: int
    sent_s: float
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    sent_s: float
    ack: int
    progress: tuple[Progress, ...] = ()
    preparing: tuple[Preparing, ...] = ()
    saves: tuple[SaveNote, ...] = ()
    finishing: tuple[Finishing, ...] = ()
    installed: tuple[InstalledEnvironment, ...] = ()
    sessions: tuple[SessionNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFrame:
    seq: int
    ack: int
    sent_s: float
    report: Report


AgentFrame = Hello | Heartbeat | ReportFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU as its machine sees it now. None: its driver does not say."""

    index: int
    uuid: str
    utilisation: float | None = None  # 0 to 1; this and the power as means of the last seconds
    memory_used_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReadings:
    """For people who watch: of all GPUs that anything is told of. Nothing is decided by it, so no engine ever
    sees it; minutes and hours made of it are kept with the figures, and not in the campus's database."""

    gpus: tuple[GpuReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyGpus:
    """For people who count, about once an hour: how much all GPUs of the machine worked since it was said
    before, in GPU-seconds at full work. Nothing is decided by it."""

    for_s: float
    watched_gpu_s: float  # of GPUs that the driver was asked about
    own_gpu_s: float  # where no guest was
    guest_gpu_s: float


FromAgent = AgentFrame | GpuReadings | BusyGpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """`orders_before`: numbers up to this one are not for this incarnation; wait for the next."""

    term: int
    hello_sent_s: float  # the first lease counts from here
    orders_before: int
    ack: int
    timing: Timing
    sent_s: float
    leased: bool = True  # False: the node is isolated, and its guests live as long as their last lease
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """Answers a heartbeat. The lease counts from when that heartbeat was *sent*, on the agent's own clock."""

    term: int
    heartbeat_sent_s: float
    lease_s: float
    ack: int
    sent_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFrame:
    term: int
    seq: int
    ack: int
    sent_s: float
    order: Order


CoordinatorFrame = Welcome | LeaseGrant | OrderFrame
