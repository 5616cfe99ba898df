"""The port to the place where checkpoints live: blocks named by their hash, and sealed manifests.

A checkpoint is durable when `seal` has returned, and not before. Every job has a newest epoch, kept by
the vault itself: nothing of an older epoch is sealed, whoever asks and however late. Calls block; an
agent makes them from a thread. All may be repeated after a crash at any point.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from gpunion.vault.tree import BLOCK_SIZE_BYTES as BLOCK_SIZE_BYTES
from gpunion.vault.tree import FileEntry as FileEntry

# A manifest names 32 blocks in a kilobyte or so: this is one of a few hundred terabytes.
MANIFEST_BYTES_MAX = 64 * 1024**2
KEEP_AT_LEAST = 2  # a checkpoint that proves unreadable must leave another one


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLabel:
    """What a manifest says about its checkpoint apart from the content."""

    checkpoint_id: str
    job_id: str
    epoch: int
    step: int
    progress: float
    tier: str
    created_s: float  # Unix time, for people only: order is by (epoch, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKey:
    """With it a job's checkpoints are encrypted. Whoever has it can read them."""

    job_id: str
    secret: bytes = field(repr=False)  # 32 bytes of chance


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFiles:
    """A manifest's files as one without the key has them."""

    key_id: str  # tells one key from another, and nothing about it
    blocks: tuple[str, ...]  # what the vault must keep; these names say nothing about what is in them
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A whole checkpoint: always complete by itself, the parent is history and not a base."""

    checkpoint_id: str
    job_id: str
    epoch: int
    step: int
    progress: float
    tier: str
    parent: str | None
    created_s: float
    files: tuple[FileEntry, ...]
    block_size_bytes: int
    total_bytes: int
    new_bytes: int  # bytes that this checkpoint added to the vault, as stored
    sealed: SealedFiles | None = None  # encrypted, and the key is not here: `files` is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """What a collection removed."""

    blocks: int
    stored_bytes: int


class VaultFault(Exception):
    """The vault could not do what was asked. Temporary: the same call may work later."""

    temporary: bool = False
    place: str = ""  # which of several it comes from, where that is known


class OldEpoch(VaultFault):
    """A newer run of this job has begun; this one may make no more durable state."""


class MissingBlock(VaultFault):
    """A manifest names a block that the vault does not hold."""


class CorruptBlock(VaultFault):
    """A block's bytes are not those its name promises. `put` replaces one that was found so."""


class BadManifest(VaultFault):
    """A manifest that is damaged, unsafe (paths that lead outside), or another under a sealed id."""


class DamagedRecord(BadManifest):
    """What the vault itself keeps of a job cannot be read, or is another's. Nothing is wrong with what was to
    be saved: it can be, once somebody has put the record right."""

    temporary = True


class WrongKey(VaultFault):
    """A checkpoint is encrypted, and the key is missing or another one. The vault itself is sound."""


class UnknownCheckpoint(VaultFault):
    """No such sealed checkpoint, or no longer."""


class CheckpointTorn(VaultFault):
    """A file changed while it was read: this is no consistent cut. Ask the job to save again."""

    temporary = True


class ShipCancelled(VaultFault):
    """The caller no longer wants this checkpoint shipped."""


class LocalDiskTrouble(VaultFault):
    """This machine's own disk failed the copy; nothing is wrong with the vault."""

    temporary = True

    def __init__(self, message: str, *, no_room: bool = False) -> None:
        super().__init__(message)
        self.no_room = no_room


class VaultFull(VaultFault):
    """No space or quota left. Nothing sealed is touched; it may work after `forget` and `collect_garbage`."""

    temporary = True


class VaultUnavailable(VaultFault):
    """The place cannot be reached or answered with an error."""

    temporary = True


class NothingSavedYet(VaultUnavailable):
    """The place is there, and no vault has been made in it so far."""


class VaultOutOfReach(VaultUnavailable):
    """Nobody answered: of the place itself nothing is known."""


class VaultDenied(VaultFault):
    """The place is there and refuses this machine's credentials. Nothing changes until a person does."""


class NotYours(VaultDenied):
    """What is asked for is of a run or a job that was not given to this machine."""


class Vault(Protocol):
    """Keeps checkpoints. Between `begin` and `seal` unsealed blocks are safe from collection."""

    def keyed(self, key: JobKey) -> "Vault":
        """The same vault for that one job: all that is put is encrypted, and what is read is opened."""
        ...

    def begin(self, job_id: str, epoch: int) -> None:
        """Record durably that `epoch` is the job's newest. The same again: fine. Older: `OldEpoch`.

        Called both before a run starts (which fences every earlier one) and before each upload.
        """
        ...

    def has(self, hashes: Iterable[str]) -> set[str]:
        """Those of `hashes` that need not be put again before the seal of an upload begun earlier."""
        ...

    def put(self, block_hash: str, data: bytes | memoryview, *, named: bool = False) -> int:
        """Store a block; returns the bytes added, 0 when it was there. `CorruptBlock`: not its name.

        `named`: the caller has just made the hash from these very bytes, and nobody need do that again. Any
        number of threads at once.
        """
        ...

    def seal(self, manifest: Manifest) -> None:
        """Make the checkpoint durable, or refuse: `OldEpoch`, `MissingBlock`, `BadManifest`.

        The epoch is checked and the manifest published in one step against other machines. The same
        manifest again is fine, even when its epoch has become old since.
        """
        ...

    def latest(self, job_id: str) -> Manifest | None:
        """The sealed checkpoint with the highest (epoch, step); `BadManifest` when that one is damaged."""
        ...

    def get(self, job_id: str, checkpoint_id: str) -> Manifest:
        """One sealed checkpoint, or `UnknownCheckpoint`."""
        ...

    def manifests(self, job_id: str) -> tuple[Manifest, ...]:
        """Every readable sealed checkpoint, oldest first: damaged ones are left out, so one can fall back."""
        ...

    def read_block(self, block_hash: str) -> bytes:
        """A block's bytes, verified: `MissingBlock` or `CorruptBlock` rather than anything else."""
        ...

    def lend_block(self, block_hash: str) -> bytes | memoryview:
        """The same for who has done with it before this thread asks for anything else: the memory is used
        again then, which spares more time than reading takes."""
        ...

    def waits_for_blocks(self) -> bool:
        """Whether they come over a network: who restores has something else to do meanwhile."""
        ...

    def hold(self, job_id: str, checkpoint_id: str) -> AbstractContextManager[None]:
        """Keep a sealed checkpoint from being forgotten while it is read, at most until this process ends.

        `UnknownCheckpoint` when it is not there any more.
        """
        ...

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        """Drop all but the newest `keep` (at least 2) checkpoints; returns the ids dropped. Held: kept."""
        ...

    def collect_garbage(self, *, in_need: bool = False) -> Garbage:
        """Delete blocks that no sealed checkpoint and no upload under way needs. May be cut anywhere.
        `in_need`, since there is no room: also those that were needed until a moment ago."""
        ...

    def describe(self) -> str:
        """One line for people: what and where this vault is."""
        ...
