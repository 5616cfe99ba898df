"""An image as a file: what is kept of it, and what is refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gpunion.wire.image_archive import BadArchive, check_reduced, file_digest, reduce_archive
from tests.saved_images import a_layer, save_image, save_images

BASE = a_layer({"etc/base": b"base"})
TOP = a_layer({"etc/top": b"top"})


def test_the_same_image_is_the_same_file_whatever_it_was_tagged(tmp_path: Path) -> None:
    plain, tagged = tmp_path / "plain.tar", tmp_path / "tagged.tar"
    digest = save_image(plain, BASE, TOP)
    assert save_image(tagged, BASE, TOP, tags=("torch:latest",), more={"repositories": b"{}"}) == digest
    for source in (plain, tagged):
        assert reduce_archive(source, source.with_suffix(".reduced"), digest) == digest
        assert check_reduced(source.with_suffix(".reduced")) == digest
    assert file_digest(plain.with_suffix(".reduced")) == file_digest(tagged.with_suffix(".reduced"))


def test_a_layer_that_is_there_twice_is_kept_once(tmp_path: Path) -> None:
    saved, reduced = tmp_path / "saved.tar", tmp_path / "reduced.tar"
    digest = save_image(saved, BASE, TOP, BASE)
    assert reduce_archive(saved, reduced, None) == digest
    with tarfile.open(reduced) as archive:
        assert archive.getnames() == ["manifest.json", f"{digest}.json", "layer-0.tar", "layer-1.tar"]
    assert check_reduced(reduced) == digest


def test_another_image_than_asked_for_is_refused_by_both_digests(tmp_path: Path) -> None:
    digest = save_image(tmp_path / "saved.tar", BASE)
    with pytest.raises(BadArchive, match=f"holds sha256:{digest}, not sha256:{'0' * 64}"):
        reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", "0" * 64)


def test_of_several_images_one_has_to_be_named(tmp_path: Path) -> None:
    last = save_images(tmp_path / "saved.tar", [((BASE,), ()), ((TOP,), ())])
    with pytest.raises(BadArchive, match="several images"):
        reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", None)
    assert reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", last) == last


def test_an_archive_that_brings_tags_is_not_given_to_an_engine(tmp_path: Path) -> None:
    save_image(tmp_path / "saved.tar", BASE, tags=("torch:latest",))
    with pytest.raises(BadArchive, match="brings tags"):
        check_reduced(tmp_path / "saved.tar")


def test_an_archive_with_anything_else_in_it_is_not_given_to_an_engine(tmp_path: Path) -> None:
    save_image(tmp_path / "saved.tar", BASE, more={"index.json": b"{}"})
    with pytest.raises(BadArchive, match="holds more"):
        check_reduced(tmp_path / "saved.tar")


def test_a_part_that_is_there_twice_could_be_read_either_way(tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar"
    save_image(saved, BASE)
    with tarfile.open(saved, "a") as archive:
        member = tarfile.TarInfo("manifest.json")
        text = b"[]"
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    with pytest.raises(BadArchive, match="lists no image"):
        check_reduced(saved)


@pytest.mark.parametrize("text", [b"not a tar", b"", b"\0" * 1024])
def test_what_is_no_archive_is_refused_with_words(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "file").write_bytes(text)
    with pytest.raises(BadArchive, match=r"no archive of an image"):
        reduce_archive(tmp_path / "file", tmp_path / "reduced.tar", None)
    with pytest.raises(BadArchive, match=r"cannot be read"):
        check_reduced(tmp_path / "file")


@pytest.mark.parametrize("listing", [b"{", b"{}", b"[1]", b'[{"Config": "x"}]', b"[]"])
def test_a_listing_that_makes_no_sense_is_refused(tmp_path: Path, listing: bytes) -> None:
    with tarfile.open(tmp_path / "odd.tar", "w") as archive:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(listing)
        archive.addfile(member, io.BytesIO(listing))
    with pytest.raises(BadArchive):
        check_reduced(tmp_path / "odd.tar")
