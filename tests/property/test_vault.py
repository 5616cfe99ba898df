"""Any sequence of saves, cuts, collections and restores gives a sealed checkpoint's bytes or a clear error.

A cut is the death of the process between any two operations on files, or within one (a part of a file). What
was acknowledged before it must be there after it; what was not may be there, whole, or not at all. Damage is
a stored block that changed, was cut short or went away: what needed it may fail from then on, with a fault
and never with other bytes; what is saved once the damage has shown may not.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.vault.manifest import MissingBlock
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.store import DirectoryVault
from tests.builders.vaults import (
    DAMAGES,
    FILES,
    IN_MEMORY,
    SAVES,
    STATES,
    UNTIMELY_SAVES,
    Cut,
    FailingOperations,
    Script,
    VaultWorld,
    does,
    play,
    scripts,
    train,
)

# Whole campuses: following every line would triple their time, and the core has tests enough that count.
pytestmark = pytest.mark.no_cover

CUTS = st.one_of(st.none(), st.integers(min_value=0, max_value=40))
SCRIPTS = scripts(
    SAVES,
    UNTIMELY_SAVES,
    does("restart"),
    does("forget"),
    does("collect"),
    does("repair"),
    DAMAGES,
    cuts=CUTS,
    most=12,
)


@settings(max_examples=60, deadline=None)
@given(script=SCRIPTS, encrypted=st.booleans())
def test_what_can_be_seen_can_be_restored_byte_for_byte_whatever_was_cut(
    script: Script, encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        play(VaultWorld(root=Path(folder), encrypted=encrypted), script)


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(min_value=0, max_value=60), content=FILES, other=FILES, encrypted=st.booleans())
def test_a_save_cut_anywhere_can_be_repeated(
    cut: int, content: dict[str, bytes], other: dict[str, bytes], encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        world = VaultWorld(root=Path(folder), encrypted=encrypted)
        world.save(other)
        world.die_after(cut)
        try:
            world.save(content, tidied=True)
        except Cut:
            world.die_after(None)
            world.collect()
            world.save(content, tidied=True)
        world.die_after(None)
        world.check()


@settings(max_examples=40, deadline=None)
@given(
    script=scripts(SAVES, does("restart"), does("forget"), does("collect"), cuts=st.integers(0, 60), most=6),
    error=st.sampled_from([errno.ENOSPC, errno.EIO, errno.EROFS, errno.ESTALE]),
    done=st.booleans(),
    for_good=st.booleans(),
    encrypted=st.booleans(),
)
def test_a_disk_that_fails_at_any_operation_costs_nothing_that_was_acknowledged(
    script: Script, error: int, done: bool, for_good: bool, encrypted: bool
) -> None:
    """Full, broken, read-only or gone: in the middle of anything, once or until somebody mends it."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        operations = FailingOperations(error, done=done, for_good=for_good)
        world = VaultWorld(root=Path(folder), encrypted=encrypted, operations=operations)
        world.save({"w": STATES[0], "v": STATES[1]})
        play(world, script)


@settings(max_examples=30, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 11), min_size=1, max_size=14),
    tidy=st.sets(st.integers(0, 13)),
    encrypted=st.booleans(),
)
def test_a_training_that_is_saved_forgotten_and_collected_can_always_go_on(
    numbers: list[int], tidy: set[int], encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        train(VaultWorld(root=Path(folder), encrypted=encrypted), numbers, tidy)


class KeepsNothing(Blocks):
    """A planted bug: a collector that finds no block needed."""

    def stored(self) -> Iterator[Path]:
        for path in super().stored():
            path.unlink()
        yield from ()


class CarelessWorld(VaultWorld):
    def vault(self) -> DirectoryVault:
        vault = super().vault()
        vault._common.__class__ = KeepsNothing
        return vault


def test_a_collector_that_keeps_nothing_would_be_found_out(tmp_path: Path) -> None:
    world = CarelessWorld(root=tmp_path)
    for number in range(3):
        world.save({"w": STATES[number]})
    world.check()
    world.forget()
    world.collect()
    with pytest.raises(MissingBlock):
        world.check()
