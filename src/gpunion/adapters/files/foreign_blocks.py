"""Blocks of a job whose key is not here, beside those of `blocks`."""

from __future__ import annotations

from gpunion.adapters.files.blocks import Blocks
from gpunion.adapters.files.coding import CHAIN_MAX
from gpunion.adapters.files.locks import translated
from gpunion.adapters.files.packing import check_stored
from gpunion.ports.vault import CorruptBlock, MissingBlock


class ForeignBlocks(Blocks):
    """They can be kept, and checked by their checksums."""

    def put_stored(self, name: str, stored: bytes) -> int:
        if self.present([name]):
            return 0
        base = check_stored(name, stored).base
        # It cannot be packed anew here: whoever has the key sends it whole.
        if base is not None and (
            base == name or not self.present([base]) or self.head(base).base is not None
        ):
            raise MissingBlock(f"{name} is a difference from {base}, which is not here as a whole")
        with translated("storing a block"):
            path = self.path(name)
            damaged = path.exists()
            if not self._published(path, stored, over=damaged or base is None):
                if self.present([name]):
                    return 0
                if path.exists():
                    raise MissingBlock(f"{name} cannot be kept as a difference here")
                # A file has one name only here. Nobody can make it whole without its key, and a copy that
                # another may overtake is worth more than none.
                self._published(path, stored, over=True)
            if damaged:  # as in `put`
                self._do.sync_directory(path.parent)
            self.clear(name)
            return len(stored)

    def examine(self, name: str) -> int:
        return self._examine(name, CHAIN_MAX)

    def _examine(self, name: str, chain_left: int) -> int:
        stored = self.read_stored(name)
        try:
            if not chain_left:
                raise CorruptBlock(f"a chain of differences is longer than {CHAIN_MAX}")
            base = check_stored(name, stored).base
        except CorruptBlock as error:
            self.suspect(name)
            raise CorruptBlock(f"{name}: {error}") from error
        if base is not None:
            self._examine(base, chain_left - 1)
        return len(stored)
