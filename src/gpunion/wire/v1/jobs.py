"""Jobs as they are shown."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpunion.wire.v1.job_requests import CheckpointIn, WindowsIn
from gpunion.wire.v1.names import PhaseName
from gpunion.wire.v1.strict import Answer


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
    steps_redone: int | None = Field(
        description="null: it is saved from outside and counts no steps. At least so many, where the machine "
        "was given up in silence (cause node_lost): how far its guest got was not heard by then"
    )
    work_redone_s: float | None = Field(description="instead of steps; null also where nobody can know")
    shipped_bytes: int
    fell_back: bool
    room_for: str | None = Field(description="the job of a higher class it made room for")
    way: str | None = Field(description="how it did: park, dump, save or unsaved")
    left_after_s: float | None = Field(description="from being asked to until it was off its GPUs for that")
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
    compute_capability: str  # the range asked for; empty: any
    cuda: str
    cpus: float
    memory_bytes: int
    network: Literal["none", "allowed"]


class UsedOut(Answer):
    """What was taken of a machine, as measured there; null where nobody could see it."""

    jobs: int = Field(description="of how many jobs this is the most")
    for_s: float = Field(description="of their programs, in all")
    cpus: float = Field(description="processors in use, on average")
    memory_bytes: int = Field(description="the most at once that could not be taken away again")
    gpu_utilisation: float | None = Field(description="of the GPUs held, on average, 0 to 1")
    gpu_memory_bytes: int | None = Field(description="the most at once on one GPU")


class PiecesOut(Answer):
    """Of a job that runs in windows."""

    windows: int = Field(description="it has had so far")
    worked_s: float
    overhead_s: float = Field(description="of that, coming and going")
    step_s: float | None = Field(description="a step on a reference GPU, on average; null: none was timed")
    gpu_memory_bytes: int | None = Field(description="the most it was seen to have of a GPU; null: unknown")
    believed: float = Field(description="how far what is said of it counts, 0.2 to 1")
    ends_at: str | None = Field(description="when its present one ends; null: nobody knows, or it has none")
    because: str | None


class JobOut(Answer):
    id: str
    name: str
    owner: str
    lab: str
    phase: PhaseName
    priority: str
    command: list[str] = Field(description="empty: what its image says")
    entrypoint: list[str] | None = Field(description="in place of its image's; null: the image's own")
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
    packages: str | None = Field(description="the environment of the campus's that it has")
    image: str | None
    preparing: PreparingOut | None
    saving: UnderWayOut | None = Field(description="its newest save, while that is under way")
    finishing: FinishingOut | None = Field(description="while its last output is being sent")
    leaves_by: str | None = Field(description="when its machine is wanted back; null: nobody has said")
    room_for: str | None = Field(description="the job of a higher class it made room for, until it goes on")
    exit_code: int | None
    output: str | None
    places: list[str]  # where its checkpoints are kept; none: the campus's own vault
    gang: GangOut | None = Field(description="of a job that is a member of one")
    session: Literal["notebook", "shell"] | None = Field(description="what of, where somebody works in it")
    pieces: PiecesOut | None = Field(description="of a job that runs in windows")


class JobDetail(JobOut):
    environment: dict[str, str]
    checkpoint: CheckpointIn
    expected_s: float | None
    finish_within_s: float | None
    preemptible: bool
    atomizable: bool
    windows: WindowsIn
    used: UsedOut | None = Field(default=None, description="by its runs that are over")
    runs: list[RunOut]
    migrations: list[MigrationOut]


class JobAnswer(Answer):
    job: JobOut
    reasons: list[ReasonOut]
    verdicts: list[VerdictOut]
    used_before: UsedOut | None = Field(
        default=None, description="when handed in: by its user's newest jobs of the same program"
    )


class JobPage(Answer):
    jobs: list[JobOut]
    next_cursor: str | None
    total: int = Field(description="of all pages together")


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


class MissingOut(Answer):
    name: str
    why: str


class SessionOut(Answer):
    name: str
    job_id: str
    kind: Literal["notebook", "shell"]
    user: str
    lab: str
    phase: PhaseName
    where: str = Field(description="in words, where it is or what it waits for")
    here: bool = Field(description="it runs and may be asked; else what is sent to it waits")
    node: str | None
    node_lab: str | None
    ready: bool = Field(description="its own server answers")
    idle_s: float | None = Field(description="since somebody worked in it; null: nothing is known")
    idle_end_s: float | None = Field(description="it ends when nobody has worked in it for so long")
    ends_in_s: float | None = Field(description="if nobody works in it from now on")
    level: str = Field(description="how it would be kept, were it moved now: whole, variables or files")
    level_why_not: str = Field(description="why it is kept no better")
    kernels: int
    saved_ago_s: float | None
    saved_bytes: int | None
    restored: str = Field(description="the level at which it came to this machine; empty: it began here")
    missing: list[MissingOut] = Field(description="what did not come along to this machine")
    unsaved: list[MissingOut] = Field(description="what the last save could not take")
    no_ssh: str = Field(description="why nobody can enter by ssh; empty: one can, or nobody knows")
    leaving_in_s: float | None = Field(
        description="its machine is wanted back, and it has to be gone by then"
    )
    leaving_why: str
    moves: int
    submitted_at: str
    ended_at: str | None


class SessionDetail(SessionOut):
    token: str = Field(description="what its own server asks for")


class SessionList(Answer):
    sessions: list[SessionOut]
