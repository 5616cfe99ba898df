"""A vault that newer versions store into as well: what this one cannot read is left alone, and told."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.adapters.files import coding
from gpunion.adapters.files.caretaker import DirectoryCaretaker
from gpunion.adapters.files.desk import DirectoryDesk
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mirror import MirrorVault
from gpunion.ports.vault import NewerFormat
from tests.builders.checkpoints import name_of, sealed, series, state

KIND_OF_ANOTHER_DAY = 200
WORDS = "newer GPUnion than this one: upgrade"


def quietly(done: int, total: int) -> None:
    assert done <= total


def of_another_day(vault: DirectoryVault, name: str, change: Callable[[bytearray], None]) -> None:
    """As a version that is not written yet might store it: a head that is sound, and says something new."""
    path = vault.blocks.path(name)
    stored = bytearray(path.read_bytes())
    change(stored)
    end = coding.read_head(path.read_bytes()).head_bytes - coding._CHECK.size
    stored[end : end + coding._CHECK.size] = coding._CHECK.pack(zlib.crc32(stored[:end]))
    path.write_bytes(stored)


def another_kind(stored: bytearray) -> None:
    stored[coding._FIXED.size + coding._PIECE.size - 1] = KIND_OF_ANOTHER_DAY


def another_kind_of_lower_parts(stored: bytearray) -> None:
    stored[coding._FIXED.size + 3 * coding._PIECE.size - 1] = KIND_OF_ANOTHER_DAY


def another_width(stored: bytearray) -> None:
    stored[4] = 16


@pytest.mark.parametrize("change", [another_kind, another_kind_of_lower_parts, another_width])
def test_it_is_told_apart_from_damage_and_nobody_mends_or_marks_it(
    tmp_path: Path, change: Callable[[bytearray], None]
) -> None:
    vault = DirectoryVault(tmp_path, grace_s=0.0)
    sealed(vault, {"w": b"old"}, checkpoint_id="c1")
    new = sealed(vault, {"w": state(1)}, checkpoint_id="c2", step=20)
    of_another_day(vault, name_of(state(1)), change)
    stored = vault.blocks.read_stored(name_of(state(1)))
    with pytest.raises(NewerFormat, match=WORDS):
        vault.lend_block(name_of(state(1)))
    [found] = DirectoryCaretaker(tmp_path).verify(None, quietly).unreadable
    assert found.passing
    assert WORDS in found.detail
    repaired = DirectoryCaretaker(tmp_path).repair(None, None, quietly)
    assert repaired.set_aside == ()
    assert vault.blocks.suspects() == set()
    assert vault.blocks.read_stored(name_of(state(1))) == stored
    assert vault.latest("job-1") == new
    assert vault.has([name_of(state(1))])  # whoever saves the same need not send it


def test_a_difference_from_it_is_not_blamed_either_and_the_next_save_does_without(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path, grace_s=0.0)
    series(vault, 2)
    of_another_day(vault, name_of(state(0)), another_kind)
    with pytest.raises(NewerFormat):
        vault.lend_block(name_of(state(1)))
    assert vault.blocks.suspects() == set()
    vault.put(name_of(state(2)), state(2), name_of(state(1)))
    assert bytes(vault.lend_block(name_of(state(2)))) == state(2)


def test_through_a_desk_it_is_the_same(tmp_path: Path) -> None:
    there = DirectoryVault(tmp_path / "there", grace_s=0.0)
    sealed(there, {"w": state(1)})
    of_another_day(there, name_of(state(1)), another_kind)
    vault = MirrorVault(DirectoryDesk(there), tmp_path / "here", limit_bytes=10**9)
    with pytest.raises(NewerFormat, match=WORDS):
        vault.lend_block(name_of(state(1)))
    assert there.blocks.suspects() == set()
