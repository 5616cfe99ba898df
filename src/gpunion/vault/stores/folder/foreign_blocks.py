"""Blocks of a job whose key is not here, beside those of `blocks`."""

from __future__ import annotations

from gpunion.vault.manifest import CorruptBlock
from gpunion.vault.packing import check_stored
from gpunion.vault.stores.folder.blocks import Blocks


class ForeignBlocks(Blocks):
    """They can be kept, and checked by their checksums."""

    def check_stored(self, name: str, stored: bytes) -> None:
        check_stored(name, stored)

    def examine(self, name: str) -> int:
        stored = self.read_stored(name)
        try:
            check_stored(name, stored)
        except CorruptBlock as error:
            self.suspect(name)
            raise CorruptBlock(f"{name}: {error}") from error
        return len(stored)
