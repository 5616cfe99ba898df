"""Nodes, enrolment, events, logs, audit: everything of the API that is not a job."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from gpunion.wire.v1 import patterns
from gpunion.wire.v1.jobs import ReasonOut, VerdictOut
from gpunion.wire.v1.names import Lab
from gpunion.wire.v1.strict import Answer, Strict

NodeName = Annotated[str, StringConstraints(pattern=patterns.NODE_NAME)]
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
    start_timeout_s: float
    avoid_s: float
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
    park: bool
    park_bytes: int | None


class NodeOut(Answer):
    id: str
    lab: str
    building: str
    phase: str
    connected: bool
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
    over: bool


class LogPushQuery(Strict):
    offset: int = Field(default=0, ge=0, le=OFFSET_LIMIT)


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
