"""Any sequence of saves, cuts, collections and restores gives a sealed checkpoint's bytes or a clear error.

A cut is the death of the process between any two operations on files, or within one (a part of a file). What
was acknowledged before it must be there after it; what was not may be there, whole, or not at all. Damage is
a stored block that changed, was cut short or went away: what needed it may fail from then on, with a fault
and never with other bytes; what is saved once the damage has shown may not.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.adapters.files.blocks import Blocks
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.ports.vault import MissingBlock
from tests.builders.vaults import (
    DAMAGES,
    FILES,
    IN_MEMORY,
    JOB,
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


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_states_of_these_tests_are_stored_as_differences(tmp_path: Path, encrypted: bool) -> None:
    """Else they would show nothing about them."""
    world = VaultWorld(root=tmp_path, encrypted=encrypted)
    for number in range(10):
        world.save({"w": STATES[number]})
    vault = world.vault()
    names = [vault.packing.name(manifest.files[0].blocks[0]) for manifest in vault.manifests(JOB)]
    distances = [vault.blocks.head(name).distance for name in names]
    assert distances == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]


class ForgetsBases(Blocks):
    """A planted bug: only what manifests name themselves is kept."""

    def with_bases(self, names: Iterable[str]) -> set[str]:
        return set(names)


class CarelessWorld(VaultWorld):
    def vault(self) -> DirectoryVault:
        vault = super().vault()
        vault.blocks.__class__ = ForgetsBases
        return vault


def test_a_collector_that_forgets_bases_would_be_found_out(tmp_path: Path) -> None:
    world = CarelessWorld(root=tmp_path)
    for number in range(3):
        world.save({"w": STATES[number]})
    world.check()
    world.forget()
    world.collect()
    with pytest.raises(MissingBlock):
        world.check()
