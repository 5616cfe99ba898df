"""Names of things. Ids made by the core are derived, never drawn, so a replay gives the same ones."""

from __future__ import annotations

import re
from typing import NewType

_NUMBERS = re.compile(r"(\d+)")
_OWN = re.compile(r"-a(?=\d+(?:[./]|$))")  # as `own_checkpoint_id` has it, at the end of an id or a record's

JobId = NewType("JobId", str)
RunId = NewType("RunId", str)
NodeId = NewType("NodeId", str)
CheckpointId = NewType("CheckpointId", str)
MigrationId = NewType("MigrationId", str)


def run_id(job_id: JobId, epoch: int) -> RunId:
    """A run is one incarnation of a job, so the epoch names it."""
    return RunId(f"{job_id}-e{epoch}")


def checkpoint_id(run: RunId, number: int) -> CheckpointId:
    return CheckpointId(f"{run}-c{number}")


def own_checkpoint_id(run: RunId, number: int) -> CheckpointId:
    """A checkpoint an agent takes by itself, nobody being there to ask. No clash with ordered ones."""
    return CheckpointId(f"{run}-a{number}")


def migration_id(job_id: JobId, number: int) -> MigrationId:
    return MigrationId(f"{job_id}-m{number}")


def by_number(name: str) -> tuple[str | int, ...]:
    """To sort names by, so that the tenth save comes after the ninth: of a program that tells no steps only
    their numbers say which is the newer. What an agent took by itself is the last that a run saves, so it
    comes after what was ordered."""
    parts = _NUMBERS.split(_OWN.sub("-d", name))
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))
