"""Codes as people would say them: clauses that go into a reason's sentence. Programs are told the codes."""

from __future__ import annotations

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason

TROUBLE_IN_WORDS = {
    CheckpointTrouble.NO_GUEST: "nothing of it ran there any more",
    CheckpointTrouble.OVER: "its program had ended",
    CheckpointTrouble.NOT_ANSWERED: "its program did not save itself in time",
    CheckpointTrouble.NOT_SAVED: "its program could not save itself",
    CheckpointTrouble.SUPERSEDED: "a later save took its place",
    CheckpointTrouble.GUEST_ENDED: "its program ended before it was complete",
    CheckpointTrouble.DEADLINE: "the time it had there was over",
    CheckpointTrouble.VAULT_FULL: "there is no room where its saves are kept",
    CheckpointTrouble.DISK_FULL: "the machine's own disk is full",
    CheckpointTrouble.DISK_FAILED: "the machine's own disk did not give or take it",
    CheckpointTrouble.VAULT_UNAVAILABLE: "where its saves are kept did not answer, or take it",
    CheckpointTrouble.VAULT_DENIED: "the machine was refused where its saves are kept",
    CheckpointTrouble.OLD_EPOCH: "a newer run of the job had begun",
    CheckpointTrouble.TORN: "its files changed while they were read",
    CheckpointTrouble.UNFIT: "what it saved cannot be stored as it is",
    CheckpointTrouble.PARKED: "it stood still in memory and could not answer",
}

END_IN_WORDS = {
    EndReason.FINISHED: "it had finished",
    EndReason.FAILED: "its program failed",
    EndReason.SAVED: "it had ended",
    EndReason.STOPPED: "it was stopped",
    EndReason.WINDOW: "its window there was over",
    EndReason.DEADLINE: "the time it had there was over",
    EndReason.OUTPUT_LOST: "it had finished, but what it made could not be kept",
    EndReason.KILLED_BY_OWNER: "the machine's owner took it back at once",
    EndReason.SICK_GPU: "a GPU of it was out of order",
    EndReason.LEASE_ENDED: "the machine lost touch with the coordinator and ended it",
    EndReason.NODE_LOST: "the machine was not heard of any more",
    EndReason.REFUSED: "the machine would not start it",
    EndReason.START_FAILED: "it could not be started",
    EndReason.GUEST_LOST: "it died there",
    EndReason.UNKNOWN: "nothing of it was there",
}


_ALREADY = {
    JobPhase.SUCCEEDED: "has already succeeded",
    JobPhase.FAILED: "has already failed",
    JobPhase.CANCELLED: "was already cancelled",
}


def already_over(phase: JobPhase) -> str:
    """What is said of a job that is over, to whoever wants it otherwise."""
    return _ALREADY.get(phase, f"is already {phase.value}")


def lab_in_words(lab: str) -> str:
    return f"lab '{lab}'" if lab else "no lab (--lab names a job's)"
