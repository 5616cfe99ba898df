"""States on their way out of this machine and into it: from the nearest place that has them.

What lies ready here comes first, then the machine the job ran on, then the vault. How a directory becomes
blocks, and blocks a directory, is an adapter's business and given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpunion.agent.checkpoints.directly import DirectSource
from gpunion.agent.dependencies import Fetched
from gpunion.domain.passes import PeerPass
from gpunion.vault.http.running_saves import PeerDesk, keeping
from gpunion.vault.manifest import CheckpointLabel, JobKey, Manifest, Vault
from gpunion.vault.peers import Peers
from gpunion.vault.ready import ReadyStates


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """`ship` and `restore` are what `World` has under these names."""

    open_vault: Callable[[tuple[str, ...]], Vault]
    ready: ReadyStates
    peers: Peers
    desk: PeerDesk | None
    ship_directory: Callable[..., Manifest]
    restore_directory: Callable[..., None]
    restore_from_ready: Callable[..., int]

    def ship(
        self,
        directory: Path,
        label: CheckpointLabel,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
        told: Callable[[int, int], None],
    ) -> Manifest:
        """What a job with a key saves is kept by nobody but the vault."""
        desk = self.desk if key is None else None
        with keeping(self._vault(places, key), desk, self.ready, label.job_id) as vault:
            return self.ship_directory(vault, directory, label, pace=pace, cancelled=cancelled, told=told)

    def restore(
        self,
        manifest: Manifest,
        into: Path,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        source: PeerPass | None,
        told: Callable[[int], None],
    ) -> Fetched:
        vault = self._vault(places, key)
        if key is not None:
            self.restore_directory(vault, manifest, into, told=told)
            return Fetched()
        with DirectSource(self.peers, self.ready, manifest.job_id, source) as direct:
            from_peer = None if source is None else direct.read
            found = self.restore_from_ready(vault, self.ready, manifest, into, from_peer=from_peer, told=told)
        return Fetched(found_bytes=found, direct_bytes=direct.direct_bytes, trouble=direct.trouble)

    def _vault(self, places: tuple[str, ...], key: JobKey | None) -> Vault:
        vault = self.open_vault(places)
        return vault if key is None else vault.keyed(key)
