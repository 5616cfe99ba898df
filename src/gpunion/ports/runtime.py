"""The port through which an agent starts, limits, asks and ends guests on its own machine.

A runtime turns a `GuestSpec` into processes and tells what became of them. It knows nothing of terms,
leases as promises, coordinators or checkpoints: it is told until when a guest may live and it keeps to
that with nobody watching.

Every call may be made again after a crash of the agent, by a new runtime object over the same state
directory. A call that finds its work done does nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class ExitReason(StrEnum):
    """Why a guest is no longer there."""

    EXITED = "exited"  # its main program ended by itself; the exit code is the program's
    SIGNALLED = "signalled"  # a signal that this runtime did not send as a kill; exit code 128 + signal
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_DISK = "out_of_disk"
    KILLED_BY_OWNER = "killed_by_owner"
    LEASE_ENDED = "lease_ended"
    DEADLINE = "deadline"  # the owner's notice ran out
    STOPPED = "stopped"  # ended on purpose for any other reason: cancelled, superseded, moved
    LOST = "lost"  # nobody was there to see its end: its keeper or the machine died
    NOT_STARTED = "not_started"  # the program could not be started at all


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSpec:
    """One run of a job as the runtime sees it. `run_id` is the key of every later call."""

    run_id: str
    job_id: str
    epoch: int
    command: tuple[str, ...]  # empty only with an image, which then says what runs
    environment: Mapping[str, str]
    gpu_indices: tuple[int, ...]
    memory_bytes: int
    cpus: float
    resume: bool
    work_source: str | None  # directory with the guest's code, copied into its working directory
    packages: str | None = None  # directory of installed Python packages: shown read-only, on Python's path
    image: str | None = None  # pinned; what the engine has is checked against it. None: the runtime's own
    network: bool = False  # it may reach the places its host's owner allows; else nothing at all
    disk_bytes: int = 0  # what it may have in its directories; 0: as much as leaves the disk's owner some
    wrapper: tuple[str, ...] = ()  # what stands in front of its program, whichever that is
    # With an image: what runs before `command`. None: the image's own, with its command where there is none.
    entrypoint: tuple[str, ...] | None = None
    begins_in_work: bool = True  # False: in its image's directory, where that has one

    @property
    def argv(self) -> tuple[str, ...]:
        """What is executed without an image."""
        return (*self.wrapper, *self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestPaths:
    """Where a guest's directories are on the host. The guest may see them under other names."""

    root: Path
    checkpoint_dir: Path
    control_dir: Path
    output_dir: Path
    scratch_dir: Path
    log_file: Path

    @property
    def work_dir(self) -> Path:
        """Where the guest's program begins, with what travelled along."""
        return self.scratch_dir / "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """What a guest that has ended took of its host, over all its processes."""

    for_s: float
    cpu_s: float
    memory_bytes: int  # the most at once that could not be taken from it


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestStatus:
    """What is known of a guest. Prepared but never started: not alive and without an exit reason."""

    run_id: str
    job_id: str
    epoch: int
    alive: bool
    exit_code: int | None
    exit_reason: ExitReason | None
    # A measurement is no part of how it ended. None: it lives, or nobody measured it.
    used: HostUse | None = field(default=None, compare=False)


class RuntimeFault(Exception):
    """The runtime could not do what was asked. Temporary: the same call may work later."""

    def __init__(self, message: str, *, temporary: bool) -> None:
        super().__init__(message)
        self.temporary = temporary


class Runtime(Protocol):
    """Starts and ends guests. All times are seconds of CLOCK_BOOTTIME, which also counts suspended time."""

    @property
    def name(self) -> str:
        """Short name of the technology, for people and metrics."""
        ...

    @property
    def sandboxed(self) -> bool:
        """False when a guest could touch its host; then this is said wherever the node shows."""
        ...

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Those of the limits cpu, memory, process and disk that nothing here holds guests to."""
        ...

    def describe(self) -> str:
        """One line for the owner: how guests are confined here, and which limits are only recorded."""
        ...

    async def prepare(self, spec: GuestSpec) -> GuestPaths:
        """Make the guest's directories and copy its code, so that a checkpoint can be restored into them.

        Again with the same spec: the same paths, nothing is touched. Another spec under the same
        `run_id` is refused for good. A crash in the middle leaves nothing that counts as prepared.
        """
        ...

    async def start(self, spec: GuestSpec) -> None:
        """Start the guest; returns once it is kept by something that outlives the agent.

        Prepares first when that was not done. A guest that lives or that has ended is left alone: a run
        starts at most once. Refused (permanent) while the owner's kill stands. Call `limit` before:
        a guest without limits lives only for a short first lease.
        """
        ...

    async def limit(self, run_id: str, lease_until_s: float | None, kill_at_s: float | None) -> None:
        """Let the guest live until the earlier of the two; the last call counts.

        A lease of None leaves the lease as it was; a `kill_at_s` of None means there is no deadline.

        May be called at any time from `prepare` on and as often as wished. Enforced with the agent
        stopped or dead. Without effect on a guest that has ended.
        """
        ...

    async def signal(self, run_id: str, signum: int) -> None:
        """Send a signal to those of the guest's processes that catch it.

        When none does, SIGUSR1 and SIGUSR2 are dropped (they would end the job they ask to save) and any
        other signal goes to all. A guest that has ended, or not started, is left alone.
        """
        ...

    async def kill(self, run_id: str, reason: ExitReason) -> GuestStatus | None:
        """End the whole process tree; returns when nothing of it lives. None: no such guest.

        The first end of a guest is the one that counts: again, or late, it returns that. A guest that was
        only prepared is marked as ended so that it never starts.
        """
        ...

    async def status(self, run_id: str) -> GuestStatus | None:
        """What is known now; None when the run is unknown here or was removed."""
        ...

    async def guests(self) -> tuple[GuestStatus, ...]:
        """Every guest not yet removed, alive or not, in order of run id: what a restarted agent adopts."""
        ...

    async def wait_exit(self, run_id: str) -> GuestStatus:
        """Wait until the guest has ended. Any number of waiters, also after the end; cancelling is harmless.

        An unknown run is a permanent fault.
        """
        ...

    async def remove(self, run_id: str) -> None:
        """Forget an ended guest and delete its directories. Again or unknown: nothing. Alive: a fault."""
        ...
