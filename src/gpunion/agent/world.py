"""Everything the agent's hands may touch, in one place, so that each of them can be given another world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpunion.agent.caps import Caps
from gpunion.agent.detours import Detours
from gpunion.agent.environment import EnvironmentKeeper
from gpunion.agent.images import ImageKeeper
from gpunion.agent.parking import GuestParker
from gpunion.agent.peering import PeerDesk
from gpunion.agent.preparing import PreparingBoard
from gpunion.agent.run_notes import Notebook, RunNote
from gpunion.agent.saves_under_way import SavesBoard
from gpunion.domain.events import AgentEvent
from gpunion.domain.peer import PeerPass
from gpunion.ports.block_cache import BlockCache
from gpunion.ports.checkpointer import Checkpointer
from gpunion.ports.clock import Clock
from gpunion.ports.coordinator_link import CoordinatorLink
from gpunion.ports.peers import Peers
from gpunion.ports.ready import ReadyStates
from gpunion.ports.runtime import Runtime
from gpunion.ports.vault import CheckpointLabel, JobKey, Manifest, Vault

SPOOL_DIR = "spool"  # what was saved and is on its way


class ControlFiles(Protocol):
    """The safe way to a directory that a guest can write to."""

    def read_json(self, directory: Path, name: str) -> dict[str, object] | None: ...

    def write_json(self, directory: Path, name: str, value: Mapping[str, object]) -> None: ...

    def delete(self, directory: Path, name: str) -> None: ...


class Ship(Protocol):
    """Seal a directory as a checkpoint. Blocks; raises a VaultFault, ShipCancelled among them.

    With a `key` it is encrypted. `pace` is called with the number of bytes about to be sent and may sleep.
    `told` hears how many bytes of how many are done, those among them that the vault had already.
    """

    def __call__(
        self,
        directory: Path,
        label: CheckpointLabel,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
        told: Callable[[int, int], None],
    ) -> Manifest: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Where a restored state came from, as far as it was not the vault."""

    found_bytes: int = 0  # that lay ready on this machine
    direct_bytes: int = 0  # straight from the machine it ran on last
    trouble: str = ""  # why no more came from there


class Restore(Protocol):
    """Make `into` the sealed checkpoint's directory, every block verified. Blocks; raises a VaultFault.

    `source`: a machine that may be asked before the vault is. `told` hears how many bytes have come with each
    block, from any thread."""

    def __call__(
        self,
        manifest: Manifest,
        into: Path,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        source: PeerPass | None,
        told: Callable[[int], None],
    ) -> Fetched: ...


class OutputShelf(Protocol):
    """Keeps what a job made and no place took. Blocks; any thread."""

    def kept(self, run_id: str) -> str:
        """Until when, in words; nothing where it is not kept."""

    def shown(self) -> list[dict[str, object]]:
        """What is kept, for the owner."""

    def keep(self, note: RunNote, step: int) -> str:
        """The same, once its output directory lies there; nothing where there is no room for it."""


def _nobody_copies(job_id: str, places: tuple[str, ...]) -> None:
    return


async def _nothing_to_see() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    state_dir: Path
    runtime: Runtime
    open_vault: Callable[[tuple[str, ...]], Vault]  # by the names of a job's places; none: the campus's own
    ship: Ship
    restore: Restore
    control: ControlFiles
    link: CoordinatorLink
    clock: Clock
    notebook: Notebook
    blocks: BlockCache
    owner_has_killed: Callable[[], bool]
    post: Callable[[AgentEvent], None]
    look_at_gpus: Callable[[], Awaitable[None]] = _nothing_to_see
    caps: Caps = field(default_factory=Caps)
    detours: Detours = field(default_factory=Detours)
    preparing: PreparingBoard = field(default_factory=PreparingBoard)
    saves: SavesBoard = field(default_factory=SavesBoard)
    environments: EnvironmentKeeper | None = None  # None: guests have a Python of their own here
    images: ImageKeeper | None = None  # None: guests run in no images here
    parker: GuestParker | None = None  # None: guests cannot be parked here
    checkpointer: Checkpointer | None = None  # None: the runtime cannot dump its guests whole
    ready: ReadyStates | None = None  # None: no states lie ready here
    peers: Peers | None = None  # None: blocks come from the vault only
    outputs: OutputShelf | None = None  # None: what no place takes is gone with its guest
    desk: PeerDesk | None = None  # None: no other machine may fetch blocks from here
    # Told when something of a job was sealed: its other places are to have it too.
    replicate: Callable[[str, tuple[str, ...]], None] = _nobody_copies

    def vault_of(self, places: tuple[str, ...], key: JobKey | None = None) -> Vault:
        """For what a job saves, whether it has a key or not.

        VaultUnavailable while its place cannot be reached: an agent must start, and obey, without one."""
        vault = self.open_vault(places)
        return vault if key is None else vault.keyed(key)

    def spool(self, run_id: str) -> Path:
        """A run's place for things on their way in or out. On the guests' file system, so links work."""
        return self.state_dir / SPOOL_DIR / run_id
