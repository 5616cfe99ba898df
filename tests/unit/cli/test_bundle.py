"""What travels with a job."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from gpunion.cli.bundle import BUNDLE_LIMIT_BYTES, UNPACKED_LIMIT_BYTES, pack
from gpunion.cli.exits import Trouble


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def test_the_same_files_give_the_same_bytes_whenever_they_were_written(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "sub" / "train.py").write_text("print(1)")
    os.utime(tmp_path / "b" / "sub" / "train.py", (1, 1))
    assert pack(tmp_path / "a").data == pack(tmp_path / "b").data


def test_ignored_files_stay_at_home(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gpunionignore").write_text("data/\n")
    assert names(pack(tmp_path).data) == [".gpunionignore", "train.py"]


def test_a_program_stays_executable_and_a_link_a_link(tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text("")
    (tmp_path / "go.sh").chmod(0o755)
    (tmp_path / "again").symlink_to("go.sh")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path).data)) as archive:
        assert archive.getmember("go.sh").mode == 0o755
        assert archive.getmember("again").linkname == "go.sh"


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "sub/../../secret"])
def test_a_link_that_leads_outside_is_refused_before_anything_is_sent(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(Trouble, match="leads outside"):
        pack(tmp_path)


def test_a_link_up_and_down_inside_is_fine(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to("../data")
    assert names(pack(tmp_path).data) == ["sub", "sub/link"]


def test_a_socket_is_left_out_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert pack(tmp_path).skipped == ("pipe",)


def test_a_bundle_that_is_too_large_says_what_is_large(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "images.bin").write_bytes(os.urandom(BUNDLE_LIMIT_BYTES + 1))
    with pytest.raises(Trouble) as raised:
        pack(tmp_path)
    assert "too large" in raised.value.what
    assert "data/images.bin (32 MiB)" in raised.value.why
    assert ".gpunionignore" in raised.value.next_step


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(UNPACKED_LIMIT_BYTES + 1)
    with pytest.raises(Trouble, match="too large") as raised:
        pack(tmp_path)
    assert "huge (1 GiB)" in raised.value.why


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(10):
        (tmp_path / "many" / str(number)).touch()
    with pytest.raises(Trouble, match="too large") as raised:
        pack(tmp_path, entries_max=10)
    assert "more than 10 files; the largest are many small files" in raised.value.why


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Trouble) as raised:
        pack(tmp_path / "nothing")
    assert raised.value.code == 3
