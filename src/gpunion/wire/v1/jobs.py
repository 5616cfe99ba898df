"""Jobs as they are asked for and as they are shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from gpunion.domain.gang import GANG_MOST
from gpunion.domain.image import parse_image
from gpunion.domain.lockfile import refuse_other_kinds
from gpunion.domain.tree import check_path
from gpunion.wire.v1.sizes import SizeBytes
from gpunion.wire.v1.strict import Answer, Strict

# A run's order travels in one frame of 1 MiB and becomes one exec(2): far below both.
ARGUMENTS_LIMIT = 1024
ARGUMENT_LIMIT_CHARS = 32 * 1024
TEXT_LIMIT_BYTES = 256 * 1024
GPUS_LIMIT = 64
REPLICAS_LIMIT = 8
YEAR_S = 366 * 86400.0
PAGE_LIMIT = 500

Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
Lab = Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")]
Argument = Annotated[str, StringConstraints(max_length=ARGUMENT_LIMIT_CHARS, pattern=r"^[^\x00]*$")]
VariableName = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
PlaceName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _names_an_image(text: str) -> str:
    parse_image(text)
    return text


ImageName = Annotated[str, Field(max_length=300), AfterValidator(_names_an_image)]
Model = Annotated[str, StringConstraints(min_length=1, max_length=128)]
PhaseName = Literal[
    "pending",
    "starting",
    "running",
    "leaving",
    "migrating",
    "stopping",
    "finishing",
    "succeeded",
    "failed",
    "cancelled",
]


def _stays_inside(path: str) -> str:
    check_path(path)
    refuse_other_kinds(path)
    return path


Lockfile = Annotated[str, Field(max_length=1024), AfterValidator(_stays_inside)]


class ResourcesIn(Strict):
    gpus: int = Field(default=1, ge=0, le=GPUS_LIMIT)
    vram: SizeBytes = 0
    models: list[Model] = Field(default_factory=list, max_length=64)
    exclude: list[Model] = Field(default_factory=list, max_length=64)
    cpus: float = Field(default=1.0, ge=0.0, le=4096.0)
    memory: SizeBytes = 2**30


SaveSignal = Literal["", "SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2"]


class CheckpointIn(Strict):
    max_interval_s: float | None = Field(default=None, gt=0.0, le=YEAR_S)
    min_interval_s: float = Field(default=0.0, ge=0.0, le=YEAR_S)
    tier: Literal["app", "system"] = "app"
    command: list[Argument] = Field(
        default_factory=list, max_length=ARGUMENTS_LIMIT, description="saves a program that cannot be changed"
    )
    signal: SaveSignal = Field(default="", description="makes such a program save itself")
    encrypt: bool = Field(
        default=False, description="what it saves is stored encrypted, with a key of its own"
    )

    @model_validator(mode="after")
    def _saved_in_one_way(self) -> CheckpointIn:
        if self.command and self.signal:
            raise ValueError("command and signal exclude each other: a program is saved in one way")
        if self.tier == "system" and (self.command or self.signal):
            raise ValueError("a guest that is saved whole needs no command or signal")
        _check_size("the command", self.command)
        return self


class JobIn(Strict):
    name: Name
    command: list[Argument] = Field(min_length=1, max_length=ARGUMENTS_LIMIT)
    resources: ResourcesIn = Field(default_factory=ResourcesIn)
    environment: dict[VariableName, Argument] = Field(default_factory=dict, max_length=ARGUMENTS_LIMIT)
    bundle: Digest | None = None
    priority: Literal["low", "normal", "high"] = "normal"
    lab: Lab = ""
    user: Lab = Field(default="", description="who it is for, where that is not who hands it in")
    checkpoint: CheckpointIn = Field(default_factory=CheckpointIn)
    expected_s: float | None = Field(default=None, gt=0.0, le=YEAR_S)
    finish_within_s: float | None = Field(default=None, gt=0.0, le=YEAR_S)
    lockfile: Lockfile | None = None
    image: ImageName | None = None
    network: Literal["none", "allowed"] = "none"
    replicas: int | None = Field(
        default=None, ge=1, le=REPLICAS_LIMIT, description="in how many places its checkpoints lie in the end"
    )
    place: PlaceName | None = Field(
        default=None, description="where its checkpoints are kept; GET /places lists the names"
    )
    gang: int = Field(
        default=1, ge=1, le=GANG_MOST, description="members that run all together or not at all"
    )

    @model_validator(mode="after")
    def _members_count_steps(self) -> JobIn:
        wish = self.checkpoint
        if self.gang > 1 and (wish.command or wish.signal or wish.tier != "app"):
            raise ValueError(
                "members of a gang save at the same step, so their program has to save itself: "
                'checkpoint.tier "app", without command or signal'
            )
        return self

    @model_validator(mode="after")
    def _has_one_base(self) -> JobIn:
        if self.lockfile is not None and self.image is not None:
            raise ValueError("lockfile and image exclude each other: an image brings its own packages")
        if self.lockfile is not None and self.bundle is None:
            raise ValueError("lockfile is a file of the job's directory, and none travels: bundle is missing")
        return self

    @model_validator(mode="after")
    def _deadline_needs_a_guess(self) -> JobIn:
        if self.finish_within_s is not None and self.expected_s is None:
            raise ValueError("finish_within_s needs expected_s: how long the job runs, as far as you know")
        return self

    @field_validator("command")
    @classmethod
    def _fits_an_order(cls, command: list[str]) -> list[str]:
        if not command[0]:
            raise ValueError("the first word is the program and cannot be empty")
        _check_size("the command", command)
        return command

    @field_validator("environment")
    @classmethod
    def _leaves_our_names(cls, environment: dict[str, str]) -> dict[str, str]:
        ours = sorted(name for name in environment if name.startswith("GPUNION_"))
        if ours:
            raise ValueError(f"{ours[0]} is set by the agent; names that begin with GPUNION_ are taken")
        _check_size("the environment", [*environment, *environment.values()])
        return environment


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
    exit_code: int | None
    output: str | None
    places: list[str]  # where its checkpoints are kept; none: the campus's own vault
    gang: GangOut | None = Field(description="of a job that is a member of one")


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


class JobsQuery(Strict):
    phase: list[PhaseName] = Field(default_factory=list)
    limit: int = Field(default=100, ge=1, le=PAGE_LIMIT)
    cursor: str | None = Field(default=None, max_length=64, description="a job id: the page goes on after it")


class Why(Answer):
    job_id: str
    phase: PhaseName
    story: list[StoryLine]
    verdicts: list[VerdictOut]
    waits: list[ReasonOut]
    preparing: PreparingOut | None
    places: dict[str, str]  # what is wrong with its places, as the coordinator sees them


class CheckpointList(Answer):
    checkpoints: list[CheckpointOut]


def _check_size(what: str, texts: list[str]) -> None:
    size = sum(len(text.encode(errors="replace")) + 1 for text in texts)
    if size > TEXT_LIMIT_BYTES:
        raise ValueError(f"{what} has {size} bytes, {TEXT_LIMIT_BYTES} are allowed; put data into the bundle")


JobOut.model_rebuild()
