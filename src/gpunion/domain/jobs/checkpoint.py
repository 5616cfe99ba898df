"""A saved state of a job: captured, then sent, then durable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.system_tier import Tier


class CheckpointPhase(StrEnum):
    REQUESTED = "requested"
    CAPTURED = "captured"
    DURABLE = "durable"
    FAILED = "failed"


class CheckpointTrouble(StrEnum):
    """Why a checkpoint did not become durable."""

    NO_GUEST = "no_guest"
    OVER = "over"  # the program has ended, and what it made is on its way
    NOT_ANSWERED = "not_answered"  # the program did not save in time
    NOT_SAVED = "not_saved"  # the program tried and could not
    SUPERSEDED = "superseded"  # a later request took its place
    GUEST_ENDED = "guest_ended"
    DEADLINE = "deadline"
    VAULT_FULL = "vault_full"
    DISK_FULL = "disk_full"  # the machine's own, on which it is set aside before it is sent
    DISK_FAILED = "disk_failed"  # it gives or takes something of it not at all, and not for want of room
    VAULT_UNAVAILABLE = "vault_unavailable"
    VAULT_DENIED = "vault_denied"  # the node's credentials are refused there
    OLD_EPOCH = "old_epoch"
    TORN = "torn"  # files changed while they were read
    UNFIT = "unfit"  # no vault takes what was saved, a link that leads outside for example
    PARKED = "parked"  # it stands still in memory and cannot answer


class Counted(StrEnum):
    """What the step of a save is counted in."""

    STEPS = "steps"  # of its program
    SECONDS = "seconds"  # of its work, for a program that is saved from outside and tells no steps
    UNKNOWN = "unknown"  # it was copied from outside, and what was copied does not say how old it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    id: CheckpointId
    job_id: JobId
    run_id: RunId
    epoch: int
    phase: CheckpointPhase
    requested_s: float
    final: bool = False
    rate_bps: float = 0.0  # what it may use of the uplink; 0: no cap
    by_s: float | None = None
    step: int = 0
    progress: float = 0.0
    stall_s: float = 0.0
    counted: Counted | None = None  # None: nobody has told
    size_bytes: int = 0  # of a dump that is on its way: about
    shipped_bytes: int = 0
    captured_s: float | None = None
    durable_s: float | None = None
    trouble: CheckpointTrouble | None = None
    tier: Tier = Tier.APP
    tier_why: str = ""  # why not the tier that was asked for
    kind: str = ""  # of the machine, where it is a whole guest
    gpu: str = ""  # the model of the real GPU it had then
