"""One place for checkpoints, open: as its vault, and as a desk where packed blocks are handed over."""

from dataclasses import dataclass

from gpunion.ports.vault import Vault
from gpunion.ports.vault_desk import VaultDesk


@dataclass(frozen=True, slots=True)
class Opened:
    vault: Vault
    desk: VaultDesk
