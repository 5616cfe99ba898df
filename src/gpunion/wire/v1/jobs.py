"""Jobs as they are shown."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpunion.wire.v1.names import PhaseName
from gpunion.wire.v1.strict import Answer
from gpunion.wire.v1.wishes import CheckpointIn


class ReasonOut(Answer):
    subject: str
    code: str
    sentence: str


class StoryLine(Answer):
    """One sentence of a job's story; `times` counts what was folded into it."""

    at: str
    code: str
    sentence: str
    times: int


class VerdictOut(Answer):
    """One node's answer to one job; `code` and `sentence` are null where it would do."""

    node: str
    fits: bool
    code: str | None
    sentence: str | None
    score: float


class DurableOut(Answer):
    checkpoint_id: str
    step: int
    progress: float
    at: str


class LiveOut(Answer):
    """What the run says of itself right now; not durable."""

    run_id: str
    step: int
    progress: float


class PreparingOut(Answer):
    """What a run that is to start waits for; `done` from 0 to 1, null where nobody can tell."""

    run_id: str
    what: str
    done: float | None


class RunOut(Answer):
    id: str
    node_id: str
    epoch: int
    phase: str
    gpus: list[int]
    ordered_at: str
    started_at: str | None
    ended_at: str | None
    end_reason: str | None
    restored_from: str | None
    resumed_step: int
    last_step: int
    checkpoints: int
    parked_at: str | None = Field(description="it stands still in its machine's memory since then")


class MigrationOut(Answer):
    id: str
    cause: str
    phase: str
    source_node: str
    destination: str | None
    started_at: str
    deadline_at: str | None
    stopped_at: str | None
    resumed_at: str | None
    downtime_s: float | None
    steps_redone: int
    shipped_bytes: int
    fell_back: bool
    tier: str | None


SaveStageName = Literal["asked", "dumping", "written", "packing", "sending", "unknown"]


class UnderWayOut(Answer):
    """What is being done for a save right now, as its machine said with its last heartbeat; kept nowhere."""

    stage: SaveStageName = Field(description="unknown: its machine is away, and what it does cannot be seen")
    for_s: float | None = Field(
        description="since it was written; while it is not written, since it was asked for"
    )
    done_bytes: int = Field(description="of the total: sent, or found to be in the vault already")
    total_bytes: int | None = Field(description="known while it is being sent")
    heard_at: str | None = Field(description="when its machine said so; null: it is not connected")


class CheckpointOut(Answer):
    id: str
    run_id: str
    epoch: int
    phase: str
    final: bool
    step: int
    progress: float
    stall_s: float
    size_bytes: int
    shipped_bytes: int
    requested_at: str
    captured_at: str | None
    durable_at: str | None
    trouble: str | None
    trouble_told: str | None  # the same in words
    tier: str
    tier_why: str  # why not the tier that was asked for
    node_id: str
    ready_on: list[str]  # nodes it was brought to, ahead of its job
    places: list[str]  # where it lies now, of the places that the coordinator reaches
    places_unknown: list[str]  # those of its job's that do not answer: it may lie there too
    spoiled: bool  # its program could not go on from it: an earlier one was taken, and it is left alone
    gone: bool  # lies nowhere (any more): newer ones took its place, its run ended first, or it was set aside
    under_way: UnderWayOut | None = Field(
        description="of one that is requested or captured; null as well where its machine says nothing of it"
    )


class FinishingOut(Answer):
    """Its program has ended, and what it made is being sent to where it is kept."""

    since: str
    trouble: str | None = Field(description="why it was not taken so far; its story says what to do")


class GangOut(Answer):
    """All members by rank: the first one's id is the gang's."""

    rank: int
    size: int
    members: list[str]


class ResourcesOut(Answer):
    gpus: int
    vram_bytes: int
    models: list[str]
    exclude: list[str]
    cpus: float
    memory_bytes: int
    network: Literal["none", "allowed"]


class JobOut(Answer):
    id: str
    name: str
    owner: str
    lab: str
    phase: PhaseName
    priority: str
    command: list[str]
    resources: ResourcesOut
    bundle: str | None
    submitted_at: str
    ended_at: str | None
    epoch: int
    node_id: str | None
    home: str | None
    moves: int
    durable: DurableOut | None
    live: LiveOut | None
    lockfile: str | None
    image: str | None
    preparing: PreparingOut | None
    saving: UnderWayOut | None = Field(description="its newest save, while that is under way")
    finishing: FinishingOut | None = Field(description="while its last output is being sent")
    exit_code: int | None
    output: str | None
    places: list[str]  # where its checkpoints are kept; none: the campus's own vault
    gang: GangOut | None = Field(description="of a job that is a member of one")


class JobDetail(JobOut):
    environment: dict[str, str]
    checkpoint: CheckpointIn
    expected_s: float | None
    finish_within_s: float | None
    runs: list[RunOut]
    migrations: list[MigrationOut]


class JobAnswer(Answer):
    job: JobOut
    reasons: list[ReasonOut]
    verdicts: list[VerdictOut]


class JobPage(Answer):
    jobs: list[JobOut]
    next_cursor: str | None


class Why(Answer):
    job_id: str
    phase: PhaseName
    story: list[StoryLine]
    verdicts: list[VerdictOut]
    waits: list[ReasonOut]
    preparing: PreparingOut | None
    saving: UnderWayOut | None
    finishing: FinishingOut | None
    places: dict[str, str]  # what is wrong with its places, as the coordinator sees them


class CheckpointList(Answer):
    checkpoints: list[CheckpointOut]
