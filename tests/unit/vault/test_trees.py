"""Directories that travel with jobs: kept whole or not at all, swept only when nobody needs them."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpunion.vault.block_cache import BlockMissing, CacheFault
from gpunion.vault.cache import DirectoryCache
from gpunion.vault.directory_store import IDLE_S, DirectoryTrees
from gpunion.vault.job_directories import (
    BadStream,
    Unframing,
    batches,
    decode_list,
    digest_of,
    encode_list,
    frame,
)
from gpunion.vault.stores.folder.operations import Unsynced
from gpunion.vault.tree import BadTree, FileEntry
from gpunion.vault.trees import Offer, TreesFull
from tests.trees import SmallTree, a_tree

TREE = a_tree({"train.py": b"print(1)", "data/big": bytes(5 * 1024**2)}, {"again": "train.py"})


@pytest.fixture
def trees(tmp_path: Path) -> DirectoryTrees:
    return DirectoryTrees(tmp_path / "trees", grace_s=0.0)


def keep(trees: DirectoryTrees, tree: SmallTree = TREE) -> None:
    for name in trees.offer(tree.digest, tree.listing).missing:
        trees.put(name, tree.blocks[name])
    assert trees.offer(tree.digest, tree.listing) == Offer(missing=())


def age(folder: Path, by_s: float) -> None:
    """As if everything had been written so long ago."""
    then_s = time.time() - by_s
    for path in folder.rglob("*"):
        os.utime(path, (then_s, then_s))


def test_a_list_is_kept_when_all_of_its_blocks_are(trees: DirectoryTrees) -> None:
    offered = trees.offer(TREE.digest, TREE.listing)
    assert set(offered.missing) == set(TREE.blocks)
    first = offered.missing[0]
    trees.put(first, TREE.blocks[first])
    assert set(trees.offer(TREE.digest, TREE.listing).missing) == set(TREE.blocks) - {first}
    assert trees.listing(TREE.digest) is None
    assert not trees.claim(TREE.digest)
    keep(trees)
    assert trees.listing(TREE.digest) == TREE.listing
    assert trees.claim(TREE.digest)
    assert all(trees.read(name) == data for name, data in TREE.blocks.items())


def test_one_directory_has_one_name(trees: DirectoryTrees) -> None:
    spaced = TREE.listing.replace(b",", b", ")
    with pytest.raises(BadTree, match="one way"):
        trees.offer(digest_of(spaced), spaced)
    with pytest.raises(BadTree, match="not " + "0" * 64):
        trees.offer("0" * 64, TREE.listing)


def test_a_sweep_takes_what_no_job_needs_and_nothing_else(tmp_path: Path, trees: DirectoryTrees) -> None:
    other = a_tree({"train.py": b"print(1)", "only": b"here"})
    keep(trees)
    keep(trees, other)
    age(tmp_path / "trees", IDLE_S + 60)
    swept = trees.sweep({other.digest})
    assert (swept.trees, swept.blocks) == (1, len(TREE.blocks.keys() - other.blocks.keys()))
    assert trees.listing(TREE.digest) is None
    assert trees.listing(other.digest) == other.listing
    assert all(trees.read(name) == data for name, data in other.blocks.items())
    keep(trees)  # and it can come again


def test_a_sweep_leaves_what_is_being_submitted(tmp_path: Path, trees: DirectoryTrees) -> None:
    keep(trees)
    age(tmp_path / "trees", IDLE_S + 60)
    assert trees.claim(TREE.digest)  # the job that needs it comes in between
    assert trees.sweep(frozenset()).trees == 0
    assert trees.claim(TREE.digest)


def test_a_sweep_leaves_an_upload_under_way_alone(tmp_path: Path, trees: DirectoryTrees) -> None:
    keep(trees, a_tree({"train.py": b"print(1)"}))
    age(tmp_path / "trees", IDLE_S + 60)
    missing = trees.offer(TREE.digest, TREE.listing).missing
    assert digest_of(b"print(1)") not in missing
    trees.sweep(frozenset())
    for name in missing:
        trees.put(name, TREE.blocks[name])
    assert trees.offer(TREE.digest, TREE.listing).missing == ()


def test_a_full_disk_loses_nothing_that_was_kept(tmp_path: Path, trees: DirectoryTrees) -> None:
    keep(trees)
    full = DirectoryTrees(tmp_path / "trees", keep_free_bytes=2**62)
    other = a_tree({"a": b"new"})
    assert full.offer(other.digest, other.listing).missing
    with pytest.raises(TreesFull, match="are free"):
        full.put(*next(iter(other.blocks.items())))
    assert full.listing(TREE.digest) == TREE.listing
    assert full.listing(other.digest) is None


def test_a_damaged_block_is_asked_for_again(tmp_path: Path, trees: DirectoryTrees) -> None:
    name = digest_of(b"print(1)")
    keep(trees)
    path = tmp_path / "trees" / "blocks" / name[:2] / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert trees.read(name) is None
    other = a_tree({"same": b"print(1)"})
    assert trees.offer(other.digest, other.listing).missing == (name,)
    keep(trees, other)
    assert trees.read(name) == b"print(1)"


def test_blocks_come_out_of_pieces_of_any_size() -> None:
    stream = b"".join(frame(data, name) for name, data in TREE.blocks.items())
    for size in (1000, len(stream)):
        unframing = Unframing()
        found: dict[str, bytes] = {}
        for at in range(0, len(stream), size):
            found |= dict(unframing.feed(stream[at : at + size]))
        unframing.close()
        assert found == TREE.blocks
    cut = Unframing()
    assert dict(cut.feed(stream[:-1])).keys() < TREE.blocks.keys()
    with pytest.raises(BadStream, match="cut short"):
        cut.close()
    with pytest.raises(BadStream, match="is the most"):
        list(Unframing().feed(bytes(32) + b"\xff\xff\xff\xff"))


def test_batches_fit_a_request() -> None:
    sizes = [(str(number), 4 * 1024**2) for number in range(9)] + [("s", 1)] * 600
    assert [len(batch) for batch in batches(sizes)] == [4, 4, 512, 89]


def test_a_node_keeps_what_it_used_last_and_no_more_than_it_may(tmp_path: Path) -> None:
    old, new = (a_tree({"f": os.urandom(50_000)}) for _ in range(2))
    cache = DirectoryCache(tmp_path / "cache", limit_bytes=60_000)
    for tree in (old, new):
        with cache.using():
            assert cache.missing(tree.blocks) == set(tree.blocks)
            for name, data in tree.blocks.items():
                cache.put(name, data)
            cache.materialise(tree.files, tmp_path / "made")
            assert (tmp_path / "made" / "f").read_bytes() == next(iter(tree.blocks.values()))
        age(tmp_path / "cache", 10)
    assert cache.missing(old.blocks) == set(old.blocks)
    assert cache.missing(new.blocks) == set()
    with pytest.raises(BlockMissing):
        cache.materialise(old.files, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_node_whose_disk_is_full_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    class Full(Unsynced):
        def write_new(self, path: Path, data: bytes | memoryview) -> None:
            path.write_bytes(data[:1])
            raise OSError(errno.ENOSPC, "No space left on device")

    name, data = next(iter(TREE.blocks.items()))
    DirectoryCache(tmp_path / "cache", limit_bytes=2**40).put(name, data)
    full = DirectoryCache(tmp_path / "cache", limit_bytes=2**40, operations=Full())
    with pytest.raises(CacheFault, match="this machine's disk is too full"):
        full.put(digest_of(b"new"), b"new")
    assert full.read(name) == data
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_what_a_list_may_not_say() -> None:
    file = TREE.files[0]
    for path in ("/etc/passwd", "../x", "a//b", "a/./b", "", "a\0b"):
        with pytest.raises(BadTree):
            a_list_of(path=path)
    for change in ({"mode": 0o104755}, {"size_bytes": -1}, {"blocks": ("0" * 63,)}, {"mode": 0o040755}):
        with pytest.raises(BadTree):
            a_list_of(**change)
    with pytest.raises(BadTree, match="twice"):
        decode([file, file])


def a_list_of(**changes: Any) -> None:
    decode([replace(TREE.files[0], **changes)])


def decode(files: list[FileEntry]) -> None:
    decode_list(encode_list(files))
