"""A vault that newer versions store into as well: what this one cannot read is left alone, and told."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from gpunion.adapters.files import coding
from gpunion.adapters.files.cache import DirectoryCache
from gpunion.adapters.files.caretaker import DirectoryCaretaker
from gpunion.adapters.files.desk import DirectoryDesk
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mirror import MirrorVault
from gpunion.adapters.files.replicas import DeskReplicas
from gpunion.adapters.files.replicated import NamedVault, ReplicatedVault
from gpunion.adapters.s3.caretaker import BucketCaretaker
from gpunion.adapters.s3.desk import BucketDesk
from gpunion.adapters.s3.objects import Objects
from gpunion.ports.block_cache import BlockMissing
from gpunion.ports.vault import NewerFormat
from tests.builders.checkpoints import name_of, sealed, series, state

KIND_OF_ANOTHER_DAY = 200
WORDS = "newer GPUnion than was to read it: upgrade the older one"


def quietly(done: int, total: int) -> None:
    assert done <= total


def of_another_day(
    vault: DirectoryVault, name: str, change: Callable[[bytearray], None] | None = None
) -> None:
    path = vault.blocks.path(name)
    path.write_bytes(restored_anew(path.read_bytes(), change or another_kind))


def restored_anew(before: bytes, change: Callable[[bytearray], None]) -> bytes:
    """As a version that is not written yet might store it: a head that is sound, and says something new."""
    stored = bytearray(before)
    change(stored)
    end = coding.read_head(before).head_bytes - coding._CHECK.size
    stored[end : end + coding._CHECK.size] = coding._CHECK.pack(zlib.crc32(stored[:end]))
    return bytes(stored)


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
    of_another_day(vault, name_of(state(0)))
    with pytest.raises(NewerFormat):
        vault.lend_block(name_of(state(1)))
    assert vault.blocks.suspects() == set()
    vault.put(name_of(state(2)), state(2), name_of(state(1)))
    assert bytes(vault.lend_block(name_of(state(2)))) == state(2)


def test_through_a_desk_it_is_the_same(tmp_path: Path) -> None:
    there = DirectoryVault(tmp_path / "there", grace_s=0.0)
    sealed(there, {"w": state(1)})
    of_another_day(there, name_of(state(1)))
    vault = MirrorVault(DirectoryDesk(there), tmp_path / "here", limit_bytes=10**9)
    with pytest.raises(NewerFormat, match=WORDS):
        vault.lend_block(name_of(state(1)))
    assert there.blocks.suspects() == set()


def test_a_save_like_one_whose_lower_parts_are_packed_anew_is_stored_whole(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path, grace_s=0.0)
    chance = numpy.random.default_rng(1)
    before = (chance.standard_normal(200_000) * 0.02).astype("f4")
    after = (before + 1e-5).astype("f4").tobytes()
    vault.put(name_of(before.tobytes()), before.tobytes())
    path = vault.blocks.path(name_of(before.tobytes()))
    path.write_bytes(with_shorter_lower_parts(path.read_bytes()))
    vault.put(name_of(after), after, name_of(before.tobytes()))
    assert bytes(vault.lend_block(name_of(after))) == after
    assert vault.blocks.head(name_of(after)).base is None


def with_shorter_lower_parts(stored: bytes) -> bytes:
    head = coding.read_head(stored)
    left_bytes = 1000
    about = coding._FIXED.size + 2 * coding._PIECE.size

    def change(data: bytearray) -> None:
        data[about : about + coding._PIECE.size] = coding._PIECE.pack(left_bytes, KIND_OF_ANOTHER_DAY)

    start = head.stored_bytes - head.pieces[2][0]
    return restored_anew(stored, change)[: start + left_bytes]


def test_of_several_places_one_that_can_be_read_is_read(tmp_path: Path) -> None:
    first, second = DirectoryVault(tmp_path / "first"), DirectoryVault(tmp_path / "second")
    for vault in (first, second):
        sealed(vault, {"w": state(1)})
    of_another_day(first, name_of(state(1)))
    both = ReplicatedVault([NamedVault("first", lambda: first), NamedVault("second", lambda: second)])
    assert bytes(both.lend_block(name_of(state(1)))) == state(1)
    of_another_day(second, name_of(state(1)))
    with pytest.raises(NewerFormat):
        both.lend_block(name_of(state(1)))
    second.blocks.path(name_of(state(1))).unlink()
    with pytest.raises(NewerFormat):  # which says what to do; that it is missing there does not
        both.lend_block(name_of(state(1)))


def test_a_mirror_from_before_a_version_was_taken_back_is_not_sent_on(tmp_path: Path) -> None:
    there = DirectoryVault(tmp_path / "there", grace_s=0.0)
    mirror = DirectoryVault(tmp_path / "here")
    mirror.put(name_of(state(1)), state(1))
    of_another_day(mirror, name_of(state(1)))
    vault = MirrorVault(DirectoryDesk(there), tmp_path / "here", limit_bytes=10**9)
    assert vault.put(name_of(state(1)), state(1)) > 0
    assert bytes(there.lend_block(name_of(state(1)))) == state(1)


def test_what_a_node_has_kept_of_a_directory_in_such_a_form_is_fetched_again(tmp_path: Path) -> None:
    cache = DirectoryCache(tmp_path, limit_bytes=10**9)
    name = name_of(state(1))
    cache.put(name, state(1))
    path = cache._blocks.path(name)
    path.write_bytes(restored_anew(path.read_bytes(), another_kind))
    with pytest.raises(BlockMissing):
        cache.read(name)
    assert cache.missing([name]) == {name}
    cache.put(name, state(1))
    assert cache.read(name) == state(1)


def test_what_can_be_copied_to_another_place_is_copied_all_the_same(tmp_path: Path) -> None:
    desks = {name: DirectoryVault(tmp_path / name, grace_s=0.0) for name in ("full", "empty")}
    sealed(desks["full"], {"w": state(1)}, checkpoint_id="c1", step=10)
    sealed(desks["full"], {"w": state(2)}, checkpoint_id="c2", step=20)
    of_another_day(desks["full"], name_of(state(1)))
    done = DeskReplicas(lambda name: DirectoryDesk(desks[name])).complete(
        "job-1", ("full", "empty"), pace=lambda size_bytes: None, cancelled=lambda: False
    )
    assert done.copied == ("c2",)
    assert WORDS in done.troubles["empty"]


@pytest.mark.requires("s3")
def test_a_bucket_is_looked_through_and_repaired_around_it(tmp_path: Path) -> None:
    from obstore.store import MemoryStore

    objects = Objects(MemoryStore(), "memory")
    vault = MirrorVault(BucketDesk(objects), tmp_path, limit_bytes=10**9)
    sealed(vault, {"w": state(1)}, checkpoint_id="c1")
    sealed(vault, {"w": b"sound"}, checkpoint_id="c2", step=20)
    name = name_of(state(1))
    [key] = [listed.key for listed in objects.list("") if name in listed.key]
    found = objects.get(key)
    assert found is not None
    objects.delete([key])
    objects.put(key, restored_anew(found.data, another_kind))
    BucketDesk(objects).doubt(name)
    [lost] = BucketCaretaker(objects).verify(None, quietly).unreadable
    assert (lost.checkpoint_id, lost.passing) == ("c1", True)
    repaired = BucketCaretaker(objects).repair(None, None, quietly)
    assert ([each.checkpoint_id for each in repaired.not_read], repaired.set_aside) == (["c1"], ())
    assert [manifest.checkpoint_id for manifest in vault.manifests("job-1")] == ["c1", "c2"]
