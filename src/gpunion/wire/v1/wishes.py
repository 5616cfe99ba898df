"""Jobs as they are asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from gpunion.domain.gang import GANG_MOST
from gpunion.wire.v1.names import (
    Argument,
    Digest,
    ImageName,
    Lab,
    Lockfile,
    Model,
    Name,
    PhaseName,
    PlaceName,
    VariableName,
)
from gpunion.wire.v1.sizes import SizeBytes
from gpunion.wire.v1.strict import Strict

# A run's order travels in one frame of 1 MiB and becomes one exec(2): far below both.
ARGUMENTS_LIMIT = 1024
TEXT_LIMIT_BYTES = 256 * 1024
GPUS_LIMIT = 64
# Nothing runs in less, and nothing at all would be a guest without a limit.
MEMORY_LEAST_BYTES = 2**20
REPLICAS_LIMIT = 8
YEAR_S = 366 * 86400.0
PAGE_LIMIT = 500


class ResourcesIn(Strict):
    gpus: int = Field(default=1, ge=0, le=GPUS_LIMIT)
    vram: SizeBytes = 0
    models: list[Model] = Field(default_factory=list, max_length=64)
    exclude: list[Model] = Field(default_factory=list, max_length=64)
    cpus: float = Field(default=1.0, gt=0.0, le=4096.0)
    memory: SizeBytes = 2**30

    @field_validator("memory")
    @classmethod
    def _is_some(cls, memory: int) -> int:
        if memory < MEMORY_LEAST_BYTES:
            raise ValueError("a job needs memory: at least 1MiB")
        return memory


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
        if self.max_interval_s is not None and self.max_interval_s < self.min_interval_s:
            raise ValueError("min_interval is longer than max_interval: one of the two cannot be kept")
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


class JobsQuery(Strict):
    phase: list[PhaseName] = Field(default_factory=list)
    limit: int = Field(default=100, ge=1, le=PAGE_LIMIT)
    cursor: str | None = Field(default=None, max_length=64, description="a job id: the page goes on after it")


def _check_size(what: str, texts: list[str]) -> None:
    size = sum(len(text.encode(errors="replace")) + 1 for text in texts)
    if size > TEXT_LIMIT_BYTES:
        raise ValueError(f"{what} has {size} bytes, {TEXT_LIMIT_BYTES} are allowed; put data into the bundle")
