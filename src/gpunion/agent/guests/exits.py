"""How a guest's end reads in the two vocabularies: the runtime's and the engine's."""

from __future__ import annotations

from gpunion.agent.metrics.guest_gpus import GpuUse
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.use import RunUse
from gpunion.ports.runtime import ExitReason, GuestStatus

_CAUSES: dict[ExitReason, EndReason | None] = {
    ExitReason.EXITED: None,
    ExitReason.SIGNALLED: None,
    ExitReason.OUT_OF_MEMORY: None,
    ExitReason.OUT_OF_DISK: None,
    ExitReason.KILLED_BY_OWNER: EndReason.KILLED_BY_OWNER,
    ExitReason.LEASE_ENDED: EndReason.LEASE_ENDED,
    ExitReason.DEADLINE: EndReason.DEADLINE,
    ExitReason.STOPPED: EndReason.STOPPED,
    ExitReason.LOST: EndReason.GUEST_LOST,
    ExitReason.NOT_STARTED: EndReason.START_FAILED,
}

_DETAILS = {
    ExitReason.OUT_OF_MEMORY: "it used more memory than it asked for; ask for more with --memory",
    ExitReason.OUT_OF_DISK: "it put more on this machine's disk than its owner allows there",
    ExitReason.LOST: "nobody saw its end: its keeper or the machine died",
    ExitReason.NOT_STARTED: "its program could not be started",
}


def cause_of(status: GuestStatus, asked: EndReason | None) -> EndReason | None:
    """Who ended it, None where it ended itself. `asked`: what this agent ended the guest for."""
    if status.exit_reason is None:
        return asked
    if status.exit_reason is ExitReason.STOPPED and asked is not None:
        return asked
    return _CAUSES[status.exit_reason]


def detail_of(status: GuestStatus) -> str:
    return "" if status.exit_reason is None else _DETAILS.get(status.exit_reason, "")


def used_of(status: GuestStatus | None, gpus: GpuUse | None) -> RunUse | None:
    """None: nobody measured it."""
    if status is None or status.used is None:
        return None
    return RunUse(
        for_s=max(0.0, status.used.for_s),
        cpu_s=max(0.0, status.used.cpu_s),
        memory_bytes=max(0, status.used.memory_bytes),
        gpu_utilisation=None if gpus is None else gpus.utilisation,
        gpu_memory_bytes=None if gpus is None else gpus.memory_bytes,
    )


def exit_reason_for(cause: EndReason) -> ExitReason:
    match cause:
        case EndReason.KILLED_BY_OWNER:
            return ExitReason.KILLED_BY_OWNER
        case EndReason.LEASE_ENDED:
            return ExitReason.LEASE_ENDED
        case EndReason.DEADLINE:
            return ExitReason.DEADLINE
        case _:
            return ExitReason.STOPPED
