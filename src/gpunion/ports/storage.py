"""One place for checkpoints, open: as its vault, and as a desk where packed blocks are handed over."""

from collections.abc import Callable
from dataclasses import dataclass

from gpunion.ports.vault import Vault
from gpunion.ports.vault_desk import VaultDesk


@dataclass(frozen=True, slots=True)
class Opened:
    vault: Vault
    desk: VaultDesk
    # VaultFull where not even the beginning of a run could be noted, as far as that can be seen from here.
    check_room: Callable[[], None] = lambda: None
