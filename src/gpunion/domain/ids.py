"""Names of things. Ids made by the core are derived, never drawn, so a replay gives the same ones."""

from __future__ import annotations

from typing import NewType

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
