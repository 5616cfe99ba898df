"""Nodes, enrolment, events, logs, audit: everything of the API that is not a job."""

from __future__ import annotations

from pydantic import Field

from gpunion.wire.v1.jobs import ReasonOut, VerdictOut
from gpunion.wire.v1.names import Lab, NodeName
from gpunion.wire.v1.strict import Answer, Strict

LOG_PAGE_LIMIT_BYTES = 1024 * 1024
# Opaque positions in logs and event numbers stay where JavaScript can count.
OFFSET_LIMIT = 2**53 - 1


class JoinTokenIn(Strict):
    expires_in_s: float = Field(default=3600.0, ge=1.0, le=7 * 86400.0)


class JoinTokenOut(Answer):
    join_token: str
    expires_at: str


class EnrolIn(Strict):
    join_token: str = Field(max_length=128)
    node_name: NodeName
    lab: Lab = ""


class TimingOut(Answer):
    heartbeat_s: float
    lease_s: float
    grace_s: float
    drift: float
    hiccup_s: float
    resend_s: float
    save_timeout_s: float
    stop_grace_s: float
    own_save_patience_s: float
    parked_at_most_s: float
    start_timeout_s: float
    avoid_s: float
    session_idle_s: float
    replan_s: float


class FarewellOut(Answer):
    node_id: str
    phase: str


class EnrolOut(Answer):
    node_id: str
    credential: str
    fingerprint: str
    vault: str
    vault_mark: str
    timing: TimingOut


class GpuOut(Answer):
    index: int
    model: str
    memory_bytes: int
    speed: float
    declared: bool
    compute_capability: str  # like 8.6; empty: it is not known
    cuda: str  # the highest version of CUDA that its driver supports; empty: it is not known
    driver: str
    card: str  # of a slice: the card it is cut from; empty: it is a whole one
    profile: str  # of a slice: its shape, like 1g.10gb
    run_id: str | None
    withheld: str | None = None  # why it is not lent although its node is, in words


class TermsOut(Answer):
    notice_s: float
    allow_unsandboxed: bool
    allow_labs: list[str]
    deny_labs: list[str]
    prefer_labs: list[str]
    allow_people: list[str]
    deny_people: list[str]
    prefer_people: list[str]
    max_guests: int
    memory_bytes: int | None
    cpus: float | None
    vram_bytes: int | None
    network_bps: float | None
    autonomy_s: float
    images: list[str]
    egress: list[str]
    sessions: bool
    park: bool
    park_bytes: int | None
    figures: str  # what may be told and kept of its GPUs, its comings and goings: sums, or full


class NodeOut(Answer):
    id: str
    lab: str
    building: str
    phase: str
    connected: bool
    isolated_because: str  # why it gets neither guests nor leases until it is accepted; empty: it is not
    fingerprint: str | None
    runtime: str
    sandboxed: bool
    dumps_guests: bool  # can save jobs whole: tier system
    dumps_why_not: str
    dumps_kind: str
    gpus: list[GpuOut]
    cpus: float
    memory_bytes: int
    uplink_bps: float
    terms: TermsOut
    known_end_at: str | None  # by its owner's terms it is lent until then
    not_lent_because: str
    vault_trouble: str  # why it cannot keep checkpoints in the campus's vault; empty where it can
    disk: str  # fine, short, full or failing; only where it is fine do new guests come
    joined_at: str
    phase_since: str
    deadline_at: str | None
    last_heard_at: str | None
    departures: int
    lent_gpu_s: float  # what runs there now counts up to this moment
    runs: list[str]


class FreeGpuOut(Answer):
    index: int
    model: str
    memory_bytes: int
    speed: float


class FreeOut(Answer):
    """Whom its owner's terms name is in the four lists; empty ones: everybody."""

    node: str
    lab: str
    gpus: list[FreeGpuOut]
    cpus: float
    memory_bytes: int
    until: str | None  # by its owner's terms it is lent until then; null: nobody has said
    notice_s: float
    allow_labs: list[str]
    deny_labs: list[str]
    allow_people: list[str]
    deny_people: list[str]


class FreeList(Answer):
    nodes: list[FreeOut]
    waiting: int  # jobs that wait for a place now


class NodeQuery(Strict):
    all: bool = False  # those too that left more than a day ago


class NodeList(Answer):
    nodes: list[NodeOut]


class LogQuery(Strict):
    offset: int = Field(default=0, ge=0, le=OFFSET_LIMIT)
    limit: int = Field(default=64 * 1024, ge=16, le=LOG_PAGE_LIMIT_BYTES)


class LogPage(Answer):
    text: str
    next_offset: int
    over: bool  # nothing more is waited for
    lacking: str | None  # the machine whose last words of it have not come, once the job is over


class LogPushQuery(Strict):
    offset: int = Field(default=0, ge=0, le=OFFSET_LIMIT)
    end: bool = False  # with these bytes all that the run printed is there


class LogPushed(Answer):
    next_offset: int


class EventsQuery(Strict):
    since: int | None = Field(default=None, ge=0, le=OFFSET_LIMIT)


class DecisionOut(Answer):
    seq: int
    at: str
    event: str
    subjects: list[str]
    reasons: list[ReasonOut]
    effects: list[str]


class ViolationOut(Answer):
    at: str
    event: str
    invariant: str
    detail: str


class AuditOut(Answer):
    violations: list[ViolationOut]
    counters: dict[str, int]


class CampusOut(Answer):
    version: str
    term: int
    vault: str
    timing: TimingOut
    now: str


class FieldError(Answer):
    at: str
    message: str


class Problem(Answer):
    """RFC 9457, with a stable code and what to do next."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    next_step: str
    errors: list[FieldError] | None = None
    verdicts: list[VerdictOut] | None = None
    next_offset: int | None = None


class BidOut(Answer):
    job_id: str
    job_name: str
    steps: int = Field(description="0: it counts none, so as many as fit")
    useful_s: float
    length_s: float = Field(description="with coming up and saving")
    vram_bytes: int
    finishes: bool


class WindowOut(Answer):
    node_id: str
    gpus: list[int]
    ends_at: str | None = Field(description="null: as long as nobody else wants it")
    end: str
    because: str
    job_id: str | None = Field(description="who has it; null: nobody")
    job_name: str | None
    turn_over_at: str | None = Field(description="from then on others may have its place")
    next_job_id: str | None = Field(description="to whom it is promised")
    next_job_name: str | None
    bids: list[BidOut]
    unused_because: str | None


class WindowNews(Answer):
    """A bid that won, or what became of a window: one line of the stream."""

    seq: int
    at: str
    job_id: str
    job_name: str
    code: str
    sentence: str


class WindowList(Answer):
    policy: str | None = Field(description="null: this campus gives no windows")
    turn_s: list[float] | None = Field(description="the shortest and the longest turn")
    windows: list[WindowOut]
