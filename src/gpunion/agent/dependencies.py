"""Everything the agent's hands may touch, in one place, so that each of them can be given another world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpunion.agent.id_paths import path_of
from gpunion.agent.machine.caps import Caps
from gpunion.agent.machine.images import ImageKeeper
from gpunion.agent.machine.packages import EnvironmentKeeper
from gpunion.agent.machine.parking import GuestParker
from gpunion.agent.metrics.guest_gpus import GpuUse
from gpunion.agent.run_records.notes import RunNote, RunNotes
from gpunion.agent.run_records.preparing import PreparingBoard
from gpunion.agent.run_records.save_progress import SavesBoard
from gpunion.agent.sessions.gate import StreamGate
from gpunion.domain.environment import InstalledEnvironment
from gpunion.domain.ids import RunId
from gpunion.domain.passes import PeerPass
from gpunion.domain.protocol.events import AgentEvent
from gpunion.ports.checkpointer import Checkpointer
from gpunion.ports.clock import Clock
from gpunion.ports.coordinator_link import CoordinatorLink
from gpunion.ports.runtime import Runtime
from gpunion.vault.block_cache import BlockCache
from gpunion.vault.detours import Detours
from gpunion.vault.http.running_saves import PeerDesk
from gpunion.vault.manifest import CheckpointLabel, JobKey, Manifest, Vault
from gpunion.vault.peers import Peers
from gpunion.vault.ready import ReadyStates

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


def _nobody_saw(run_id: RunId) -> GpuUse | None:
    return None


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
    run_notes: RunNotes
    blocks: BlockCache
    owner_has_killed: Callable[[], bool]
    post: Callable[[AgentEvent], None]
    look_at_gpus: Callable[[], Awaitable[None]] = _nothing_to_see
    gpu_use: Callable[[RunId], GpuUse | None] = _nobody_saw  # what a guest did with its GPUs so far
    caps: Caps = field(default_factory=Caps)
    detours: Detours = field(default_factory=Detours)
    preparing: PreparingBoard = field(default_factory=PreparingBoard)
    saves: SavesBoard = field(default_factory=SavesBoard)
    gate: StreamGate = field(default_factory=StreamGate)  # what people send to guests passes it
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

    def installed(self) -> tuple[InstalledEnvironment, ...]:
        """Of the campus's environments, what lies ready here."""
        return () if self.environments is None else self.environments.installed

    def spool(self, run_id: str) -> Path:
        """A run's place for things on their way in or out. On the guests' file system, so links work."""
        return path_of(self.state_dir / SPOOL_DIR, run_id)
