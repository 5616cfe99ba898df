"""One place for checkpoints, open: as its vault, and as a desk where packed blocks are handed over."""

from dataclasses import dataclass

from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import Vault


@dataclass(frozen=True, slots=True)
class Opened:
    vault: Vault
    desk: VaultDesk
