"""The port to looking after a vault: what is in it, whether it can all be read, and what to do if not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import Manifest

# Called with how many blocks are done and how many there are.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShelf:
    """One job's sealed checkpoints, oldest first, and the names of records that cannot be read."""

    job_id: str
    epoch: int | None
    checkpoints: tuple[Manifest, ...]
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A sealed checkpoint that cannot be restored, and why."""

    job_id: str
    record: str  # the manifest's name in the vault
    checkpoint_id: str
    blocks: tuple[str, ...]  # damaged or missing ones; none when the manifest itself is damaged
    detail: str
    encrypted: bool = False
    passing: bool = False  # files of it could not be read this time; what is in them may be sound


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFence:
    """A job whose record of its newest run cannot be read: none of its runs can save until it is mended."""

    job_id: str
    detail: str
    misplaced: bool = False  # sound, and of another job: only a person can tell how that came about


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    checkpoints: int
    blocks: int
    plain_bytes: int
    unreadable: tuple[Unreadable, ...]
    encrypted: int = 0  # of the checkpoints: only checked for being what was once stored
    encrypted_bytes: int = 0
    fences: tuple[LostFence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    before: Findings
    replaced: tuple[str, ...]  # blocks that another vault still had
    set_aside: tuple[Unreadable, ...]  # out of view; what remains of them is kept for people
    in_use: tuple[Unreadable, ...]  # somebody reads them at this moment; ask again later
    not_read: tuple[Unreadable, ...] = ()  # left alone: with the disk well again they may be sound
    fences: tuple[tuple[str, int], ...] = ()  # jobs that can save again, each from this epoch on


class Caretaker(Protocol):
    """Works beside a vault in use. Calls block and raise a VaultFault; all may be repeated."""

    def survey(self, job_id: str | None) -> tuple[JobShelf, ...]: ...

    def verify(self, job_id: str | None, progress: Progress) -> Findings:
        """Read and check every block of every sealed checkpoint. What is found damaged is stored anew when
        the same content is shipped again."""
        ...

    def repair(self, job_id: str | None, source: VaultDesk | None, progress: Progress) -> Repaired:
        """Verify; take damaged blocks from the vault behind `source` where it has them intact; set aside the
        checkpoints that still cannot be read, so that nobody tries to go on from them."""
        ...
