"""Jobs as they are asked for."""

from __future__ import annotations

import json
from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.gang import GANG_MOST
from gpunion.domain.jobs.job import WindowWish
from gpunion.domain.jobs.session import (
    NAME_IN_WORDS,
    SESSION_SAVED_EVERY_S,
    SSH_KEYS_MAX,
    Session,
    SessionKind,
    is_session_name,
)
from gpunion.domain.version_ranges import RANGE_MAX_CHARS, checked_range
from gpunion.wire.v1.names import (
    Argument,
    Digest,
    EnvironmentName,
    ImageName,
    Lab,
    Lockfile,
    Model,
    Name,
    NodeName,
    PhaseName,
    PlaceName,
    SshKey,
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
STEPS_MOST = 10**9
NODES_MOST = 256
PHASES_LIMIT = 32  # each of them, and some twice


class ResourcesIn(Strict):
    gpus: int = Field(default=1, ge=0, le=GPUS_LIMIT)
    vram: SizeBytes = 0
    models: list[Model] = Field(default_factory=list, max_length=64)
    exclude: list[Model] = Field(default_factory=list, max_length=64)
    compute_capability: str = Field(
        default="", max_length=RANGE_MAX_CHARS, description="a range that its GPUs' is in, like >=8.0"
    )
    cuda: str = Field(
        default="", max_length=RANGE_MAX_CHARS, description="a range of the CUDA that its driver supports"
    )
    cpus: float = Field(default=1.0, gt=0.0, le=4096.0)
    memory: SizeBytes = 2**30

    @field_validator("compute_capability", "cuda")
    @classmethod
    def _is_a_range(cls, asked: str, info: ValidationInfo) -> str:
        example = ">=12.4" if info.field_name == "cuda" else ">=8.0"
        return asked and checked_range(asked, example)

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


class WindowsIn(Strict):
    shortest_s: float | None = Field(
        default=None, gt=0.0, le=YEAR_S, description="no window shorter than this is of use to it"
    )
    vram: Literal["learned", "declared"] = Field(
        default="learned", description="whether what it was seen to need counts, once enough was seen"
    )
    safe_every: int = Field(
        default=1, ge=1, le=STEPS_MOST, description="steps from one point where it saves cheaply to the next"
    )
    longest_s: float | None = Field(
        default=None, gt=0.0, le=YEAR_S, description="it bids for no longer piece"
    )
    not_on: list[NodeName] = Field(
        default_factory=list, max_length=NODES_MOST, description="machines on which it wants no window"
    )
    bid: bool = Field(default=True, description="false: it begins nothing until it may bid again")

    @model_validator(mode="after")
    def _leaves_a_length(self) -> Self:
        if self.shortest_s is not None and self.longest_s is not None and self.longest_s < self.shortest_s:
            raise ValueError("windows.longest is shorter than windows.shortest: it could bid for none")
        return self

    def wish(self) -> WindowWish:
        return WindowWish(
            shortest_s=self.shortest_s,
            learned_vram=self.vram == "learned",
            safe_every=self.safe_every,
            longest_s=self.longest_s,
            not_on=tuple(NodeId(name) for name in dict.fromkeys(self.not_on)),
            bids=self.bid,
        )

    def over(self, wish: WindowWish) -> WindowWish:
        """What is said here, in the place of what was said before. ValidationError where both together leave
        nothing."""
        former = WindowsIn.of(wish).model_dump()
        return WindowsIn.model_validate(former | self.model_dump(exclude_unset=True)).wish()

    @classmethod
    def of(cls, wish: WindowWish) -> WindowsIn:
        """Not checked again: what was accepted once is shown."""
        return cls.model_construct(
            shortest_s=wish.shortest_s,
            vram="learned" if wish.learned_vram else "declared",
            safe_every=wish.safe_every,
            longest_s=wish.longest_s,
            not_on=list(wish.not_on),
            bid=wish.bids,
        )


class SessionIn(Strict):
    kind: Literal["notebook", "shell"]
    ssh_keys: list[SshKey] = Field(
        default_factory=list, max_length=SSH_KEYS_MAX, description="public keys that may enter by ssh"
    )
    idle_end_s: float | None = Field(
        default=None, gt=0.0, le=YEAR_S, description="ends when nobody has worked in it for so long"
    )

    def asked(self) -> Session:
        kind, keys = SessionKind(self.kind), tuple(self.ssh_keys)
        return Session(kind=kind, ssh_keys=keys, idle_end_s=self.idle_end_s)


class JobIn(Strict):
    name: Name
    command: list[Argument] = Field(
        default_factory=list,
        max_length=ARGUMENTS_LIMIT,
        description="what is run; in an image, after its entry point. Empty: what the image says",
    )
    entrypoint: list[Argument] | None = Field(
        default=None,
        max_length=ARGUMENTS_LIMIT,
        description="what runs before the command, in place of the image's entry point; empty: nothing",
    )
    resources: ResourcesIn = Field(default_factory=ResourcesIn)
    environment: dict[VariableName, Argument] = Field(default_factory=dict, max_length=ARGUMENTS_LIMIT)
    bundle: Digest | None = None
    priority: Literal["low", "normal", "high"] = "normal"
    preemptible: bool = Field(
        default=False, description="what it cannot save may be lost where it makes room for a higher class"
    )
    atomizable: bool = Field(
        default=False, description="it runs in windows: it may be saved and stopped, to go on in the next one"
    )
    windows: WindowsIn = Field(default_factory=WindowsIn)
    lab: Lab = ""
    user: Lab = Field(default="", description="who it is for, where that is not who hands it in")
    checkpoint: CheckpointIn = Field(default_factory=CheckpointIn)
    expected_s: float | None = Field(default=None, gt=0.0, le=YEAR_S)
    finish_within_s: float | None = Field(default=None, gt=0.0, le=YEAR_S)
    lockfile: Lockfile | None = None
    packages: EnvironmentName | None = Field(
        default=None, description="an environment of the campus's: one of GET /environments"
    )
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
    session: SessionIn | None = Field(
        default=None, description="somebody works in it: reached under its name, see /sessions"
    )

    @property
    def longest_between_saves_s(self) -> float | None:
        asked = self.checkpoint
        if self.session is None or asked.max_interval_s is not None:
            return asked.max_interval_s
        return max(SESSION_SAVED_EVERY_S, asked.min_interval_s)

    @model_validator(mode="after")
    def _session_has_a_host_name(self) -> JobIn:
        if self.session is not None and not is_session_name(self.name):
            raise ValueError(f"a session's name is part of an address: {NAME_IN_WORDS}")
        if self.session is not None and self.gang > 1:
            raise ValueError("a session is one guest: gang and session exclude each other")
        return self

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
    def _runs_in_windows_alone(self) -> JobIn:
        if self.atomizable and self.gang > 1:
            raise ValueError("atomizable and gang exclude each other: members of a gang run all together")
        if not self.atomizable and self.windows != WindowsIn():
            raise ValueError("windows are for jobs that say atomizable = true")
        return self

    @model_validator(mode="after")
    def _has_one_base(self) -> JobIn:
        if self.lockfile is not None and self.image is not None:
            raise ValueError("lockfile and image exclude each other: an image brings its own packages")
        if self.packages is not None and (self.lockfile is not None or self.image is not None):
            raise ValueError("packages excludes lockfile and image: a job has one set of packages")
        if self.lockfile is not None and self.bundle is None:
            raise ValueError("lockfile is a file of the job's directory, and none travels: bundle is missing")
        return self

    @model_validator(mode="after")
    def _says_what_to_run(self) -> JobIn:
        if self.image is None and self.entrypoint is not None:
            raise ValueError("entrypoint stands in place of an image's, and no image is asked for")
        if self.image is None and not self.command:
            raise ValueError("command is missing: only an image can say itself what is run")
        if not self.command and self.entrypoint == []:
            raise ValueError("entrypoint is empty and command is missing: nothing is to be run")
        return self

    @model_validator(mode="after")
    def _deadline_needs_a_guess(self) -> JobIn:
        if self.finish_within_s is not None and self.expected_s is None:
            raise ValueError("finish_within_s needs expected_s: how long the job runs, as far as you know")
        return self

    @field_validator("command", "entrypoint")
    @classmethod
    def _fits_an_order(cls, command: list[str] | None) -> list[str] | None:
        if command and not command[0]:
            raise ValueError("the first word is the program and cannot be empty")
        _check_size("the command", command or [])
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
    phase: list[PhaseName] = Field(default_factory=list, max_length=PHASES_LIMIT)
    node: list[NodeName] = Field(
        default_factory=list, max_length=NODES_MOST, description="jobs with a guest on one of these"
    )
    order: Literal["newest", "oldest"] = Field(default="newest", description="which comes first")
    limit: int = Field(default=100, ge=1, le=PAGE_LIMIT)
    cursor: str | None = Field(default=None, max_length=64, description="a job id: the page goes on after it")


def _check_size(what: str, texts: list[str]) -> None:
    """As it will stand in an order and in the store, where some letters take six bytes."""
    size = sum(len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) for text in texts)
    if size > TEXT_LIMIT_BYTES:
        raise ValueError(f"{what} has {size} bytes, {TEXT_LIMIT_BYTES} are allowed; put data into the bundle")
