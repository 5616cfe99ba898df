"""The port to a vault that is elsewhere: what crosses the wire is what lies in it, packed as it is stored.

A node keeps a mirror of the blocks it has sent or fetched, packs against those, and hands over only what
the vault lacks. So a save sends differences, a restore fetches what the node does not have yet, and either
goes on where a broken connection left it. The vault stays the judge: of epochs, of blocks, of what is sealed.
"""

from collections.abc import Collection
from typing import Protocol

from gpunion.ports.vault import (
    BadManifest,
    CorruptBlock,
    Garbage,
    MissingBlock,
    NewerFormat,
    OldEpoch,
    UnknownCheckpoint,
    VaultFault,
    VaultFull,
)


class VaultDesk(Protocol):
    """Faults are those of `ports.vault`. Every call may be repeated.

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
        """A block as a vault stores it. It is unpacked and verified. `MissingBlock`: its base is not here."""
        ...

    def fetch(self, name: str, job_id: str | None = None) -> bytes:
        """A block as it is stored; its head names the base it needs. `MissingBlock`."""
        ...

    def fetch_start(self, name: str) -> bytes:
        """Of a block that is nobody's own: at least so much of it, from its beginning, as a difference from
        it needs where both are stored alike. `MissingBlock`."""
        ...

    def doubt(self, name: str, job_id: str | None = None) -> None:
        """It arrived damaged: the vault looks for itself, and counts it as absent if so."""
        ...

    def seal(self, job_id: str, manifest: bytes) -> None:
        """`BadManifest` also for one of another job."""
        ...

    def begin_copy(self, job_id: str, epoch: int) -> None:
        """As `begin`, for a checkpoint that another place has sealed: a newer run may have begun meanwhile.

        The newest epoch is never lowered: new saves of an old run stay refused."""
        ...

    def adopt(self, job_id: str, manifest: bytes) -> None:
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


# A hold that nobody renews ends: whoever asked for it has died, or its cable is cut.
HOLD_S = 120.0

# What a fault is called on the wire: a status of HTTP, and a word by which the other side knows it again.
# Whatever is not here is trouble of the place itself.
FAULT_WORDS: dict[type[VaultFault], tuple[int, str]] = {
    OldEpoch: (409, "old_epoch"),
    MissingBlock: (404, "missing_block"),
    CorruptBlock: (422, "corrupt_block"),
    NewerFormat: (422, "newer_format"),
    BadManifest: (422, "bad_manifest"),
    UnknownCheckpoint: (404, "unknown_checkpoint"),
    VaultFull: (507, "vault_full"),
}
UNAVAILABLE_WORDS = (503, "vault_unavailable")
