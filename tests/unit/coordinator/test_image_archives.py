"""The campus's store of images: piece by piece, checked at the end, nothing left of what was refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.coordinator.image_archives import PART_MEMORY_S, ImageArchives, NoRoom, OutOfStep
from gpunion.wire.image_archive import BadArchive, file_digest, reduce_archive
from tests.saved_images import a_layer, save_image


@pytest.fixture
def reduced(tmp_path: Path) -> Path:
    save_image(tmp_path / "saved.tar", a_layer({"marker": b"x" * 5000}))
    reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", None)
    return tmp_path / "reduced.tar"


def test_pieces_become_an_archive_when_all_of_them_are_there(tmp_path: Path, reduced: Path) -> None:
    archives = ImageArchives(tmp_path / "images", keep_free_bytes=0)
    data, digest = reduced.read_bytes(), file_digest(reduced)
    assert archives.append(digest, 0, data[:4000]) == 4000
    assert archives.find(digest) is None
    with pytest.raises(OutOfStep) as gap:
        archives.append(digest, 5000, data[5000:])
    assert gap.value.expected == 4000
    archives.append(digest, 4000, data[4000:])
    assert archives.finish(digest).size_bytes == len(data)
    assert archives.find(digest) is not None
    assert archives.path(digest).read_bytes() == data


def test_what_is_not_what_it_was_called_leaves_nothing(tmp_path: Path, reduced: Path) -> None:
    archives = ImageArchives(tmp_path / "images", keep_free_bytes=0)
    archives.append("0" * 64, 0, reduced.read_bytes())
    with pytest.raises(BadArchive, match="not 0000"):
        archives.finish("0" * 64)
    assert list((tmp_path / "images").iterdir()) == []
    with pytest.raises(BadArchive, match="nothing of it"):
        archives.finish("0" * 64)


def test_a_disk_that_is_nearly_full_takes_no_more_and_keeps_no_part(tmp_path: Path) -> None:
    archives = ImageArchives(tmp_path / "images", keep_free_bytes=0)
    archives.append("0" * 64, 0, b"some")
    full = ImageArchives(tmp_path / "images", keep_free_bytes=2**62)
    with pytest.raises(NoRoom, match="disk is full"):
        full.append("0" * 64, 4, b"more")
    assert list((tmp_path / "images").iterdir()) == []


def test_a_sweep_leaves_what_is_listed_and_what_is_on_its_way(tmp_path: Path) -> None:
    archives = ImageArchives(tmp_path / "images", keep_free_bytes=0)
    for name in ("listed", "forgotten", "sending.part", "given-up.part"):
        (tmp_path / "images").mkdir(exist_ok=True)
        (tmp_path / "images" / name).touch()
    os.utime(tmp_path / "images" / "given-up.part", (1000.0, 1000.0))
    os.utime(tmp_path / "images" / "sending.part", (2000.0, 2000.0))
    archives.sweep(["listed"], now_s=1500.0 + PART_MEMORY_S)
    assert sorted(file.name for file in (tmp_path / "images").iterdir()) == ["listed", "sending.part"]
