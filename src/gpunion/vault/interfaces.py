"""The port to a vault that is elsewhere: what crosses the wire is what lies in it, packed as it is stored.

A node keeps a mirror of the blocks it has sent or fetched, and hands over only what the vault lacks. So a
save sends what is new, a restore fetches what the node does not have yet, and either goes on where a broken
connection left it. The vault stays the judge: of epochs, of blocks, of what is sealed.
"""

from collections.abc import Callable, Collection
from typing import BinaryIO, Protocol

from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Garbage,
    Manifest,
    MissingBlock,
    NotYours,
    OldEpoch,
    UnknownCheckpoint,
    VaultFault,
    VaultFull,
)


class VaultDesk(Protocol):
    """Faults are those of `vault.manifest`. Every call may be repeated.

    `job_id` is given for blocks of a job with a key. They are its own: nobody without the key can tell
    whether one is what its name says, so nobody but this job relies on it. The vault checks its checksum.
    """

    def describe(self) -> str: ...

    def check_room(self) -> None:
        """`VaultFull` where not even a beginning could be kept, as far as the place can tell."""
        ...

    def begin(self, job_id: str, epoch: int) -> None: ...

    def has(self, names: Collection[str], job_id: str | None = None) -> set[str]: ...

    def put(self, name: str, stored: bytes, job_id: str | None = None) -> None:
        """A block as a vault stores it. It is unpacked and verified."""
        ...

    def fetch(self, name: str, job_id: str | None = None) -> bytes:
        """A block as it is stored. `MissingBlock`."""
        ...

    def doubt(self, name: str, job_id: str | None = None) -> None:
        """It arrived damaged: the vault looks for itself, and counts it as absent if so."""
        ...

    def seal(self, job_id: str, manifest: bytes | BinaryIO) -> None:
        """`BadManifest` also for one of another job."""
        ...

    def begin_copy(self, job_id: str, epoch: int) -> None:
        """As `begin`, for a checkpoint that another place has sealed: a newer run may have begun meanwhile.

        The newest epoch is never lowered: new saves of an old run stay refused."""
        ...

    def adopt(self, job_id: str, manifest: bytes | BinaryIO) -> None:
        """As `seal`, after `begin_copy`. What is of an older run is never taken for the newest: order is by
        (epoch, step)."""
        ...

    def latest(self, job_id: str) -> bytes | None: ...

    def sealed(self, job_id: str) -> list[bytes]:
        """Every readable manifest, oldest first."""
        ...

    def hold(self, job_id: str, checkpoint_id: str) -> str:
        """Keeps a checkpoint for a while; the answer names the hold for `renew` and `release`."""
        ...

    def renew(self, hold: str) -> None: ...

    def release(self, hold: str) -> None: ...

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]: ...

    def collect_garbage(self) -> Garbage:
        """For who found no room: also what was needed until a moment ago."""
        ...


def anything(_manifest: Manifest) -> None:
    """Nobody minds."""


def everything(_manifest: Manifest) -> bool:
    return True


class JudgedDesk(VaultDesk, Protocol):
    """For whoever lets others use a desk: what a manifest says is known only once it is read."""

    def seal(
        self, job_id: str, manifest: bytes | BinaryIO, judge: Callable[[Manifest], None] | None = None
    ) -> None:
        """`judge` raises where this one is not to be sealed. Nothing has happened then."""
        ...

    def adopt(
        self, job_id: str, manifest: bytes | BinaryIO, judge: Callable[[Manifest], None] | None = None
    ) -> None: ...

    def sealed(self, job_id: str, shown: Callable[[Manifest], bool] = everything) -> list[bytes]: ...


# A hold that nobody renews ends: whoever asked for it has died, or its cable is cut.
HOLD_S = 120.0

# What a fault is called on the wire: a status of HTTP, and a word by which the other side knows it again.
# Whatever is not here is trouble of the place itself.
FAULT_WORDS: dict[type[VaultFault], tuple[int, str]] = {
    OldEpoch: (409, "old_epoch"),
    NotYours: (403, "not_your_run"),
    MissingBlock: (404, "missing_block"),
    CorruptBlock: (422, "corrupt_block"),
    BadManifest: (422, "bad_manifest"),
    UnknownCheckpoint: (404, "unknown_checkpoint"),
    VaultFull: (507, "vault_full"),
}
UNAVAILABLE_WORDS = (503, "vault_unavailable")
