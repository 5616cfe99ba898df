"""What a session's guest sends as its files is written below the folder that was named and nowhere else."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpunion.cli.jobs.beneath import part_of
from gpunion.cli.sessions.files import Brought, bring
from gpunion.sdk.streams import ByteStream, StreamBroken

KEY = b"ssh-ed25519 of-the-attacker"


class Sent(ByteStream):
    """Brings these bytes."""

    def __init__(self, data: bytes, *, breaks: bool = False) -> None:
        self.pieces = [data[at : at + 9000] for at in range(0, len(data), 9000)]
        self._breaks = breaks

    async def read(self) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        if self._breaks:
            raise StreamBroken("it moved")
        return b""

    async def write(self, data: bytes) -> None:
        del data

    async def end(self) -> None: ...

    async def close(self) -> None: ...


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry, b""


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    return entry, b""


def file(name: str, data: bytes = KEY, mtime: float = 1000.0) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(data), mtime
    return entry, data


def packed(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for entry, data in entries:
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


async def brought(target: Path, *entries: tuple[tarfile.TarInfo, bytes], force: bool = False) -> Brought:
    return await bring(Sent(packed(entries)), target, force=force)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "authorized_keys").write_text("mine")
    return tmp_path


def assert_untouched(home: Path) -> None:
    assert (home / ".ssh" / "authorized_keys").read_text() == "mine"
    assert sorted(path.name for path in home.iterdir() if path.name != "course") == [".ssh"]


LONG = "d" * 247
ATTACKS = {
    "by a link where the unfinished file is written": [
        link("b", "a/l/.."),
        link(part_of("x"), "b/.ssh/authorized_keys"),
        folder("a"),
        link("a/l", ".."),
        file("x"),
    ],
    "by links of which each leads inside while the others are not there": [
        link("b", "a/l/.."),
        folder("a"),
        link("a/l", ".."),
        file("b/.ssh/authorized_keys"),
        file("b/new"),
    ],
    "by a path too long to be followed to its end": [
        *(folder("/".join([LONG] * depth)) for depth in range(1, 17)),
        link("e", "/".join([LONG] * 16) + "/" + "../" * 16 + ".."),
        file("e/.ssh/authorized_keys"),
    ],
    "by a folder that is a link by now": [link("d", ".."), folder("d"), file("d/.ssh/authorized_keys")],
    "by its name": [file("../.ssh/authorized_keys"), file("/tmp/../" + "x"), file("a/../../new")],
    "by a hard link": [link("h", "../.ssh/authorized_keys"), file("h")],
}


@pytest.mark.parametrize("entries", ATTACKS.values(), ids=ATTACKS)
async def test_nothing_is_written_elsewhere(home: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    for force in (False, True):
        await brought(home / "course", *entries, force=force)
    assert_untouched(home)


async def test_a_link_that_stood_there_is_not_written_through(home: Path) -> None:
    course = home / "course"
    course.mkdir()
    (course / "x").symlink_to("../.ssh/authorized_keys")
    (course / "sub").symlink_to("../.ssh")
    (course / part_of("y")).symlink_to("../.ssh/authorized_keys")
    await brought(course, file("x"), file("sub/authorized_keys"), file("y"), force=True)
    assert_untouched(home)
    assert (course / "sub" / "authorized_keys").read_bytes() == KEY


async def test_what_is_no_file_folder_or_link_inside_is_left_out_and_the_rest_comes(tmp_path: Path) -> None:
    pipe, device, hard = tarfile.TarInfo("pipe"), tarfile.TarInfo("device"), tarfile.TarInfo("hard")
    pipe.type, device.type, hard.type, hard.linkname = (
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.LNKTYPE,
        "a/file",
    )
    target = tmp_path / "here"
    found = await brought(
        target,
        folder("a"),
        file("a/file"),
        link("a/inside", "file"),
        link("up", "a/../../x"),
        (pipe, b""),
        (device, b""),
        (hard, b""),
        file("a/last"),
    )
    assert found.left_out.first == ["up", "pipe", "device", "hard"]
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "a",
        "a/file",
        "a/inside",
        "a/last",
    ]
    assert os.readlink(target / "a" / "inside") == "file"


async def test_a_setuid_program_is_an_ordinary_one_here(tmp_path: Path) -> None:
    entry, data = file("tool")
    entry.mode = 0o6755
    await brought(tmp_path, (entry, data))
    assert (tmp_path / "tool").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
async def test_a_name_of_gigabytes_is_not_read(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = kind, 2**33 - 1
    sent = Sent(entry.tobuf() + b"n" * 8 * 1024**2)
    with pytest.raises(tarfile.TarError):
        await bring(sent, tmp_path, force=False)
    assert len(sent.pieces) > 700


async def test_a_date_that_cannot_be_stops_nothing(tmp_path: Path) -> None:
    dates = ("-1e9", "1e300", "nan", "-inf")
    entries = [file(f"f{number}") for number in range(len(dates))]
    for date, (entry, _) in zip(dates, entries, strict=True):
        entry.pax_headers = {"mtime": date}
    found = await brought(tmp_path, *entries)
    assert found.written == len(dates)


async def test_what_is_newer_here_stays_and_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    await brought(tmp_path, file("same"), file("mine", b"old"))
    (tmp_path / "mine").write_bytes(b"my own work")
    again = await brought(tmp_path, file("same"), file("mine", b"theirs"))
    assert (again.files, again.written, again.kept.first) == (2, 0, ["mine"])
    assert (tmp_path / "mine").read_bytes() == b"my own work"
    forced = await brought(tmp_path, file("mine", b"theirs"), force=True)
    assert (forced.written, (tmp_path / "mine").read_bytes()) == (1, b"theirs")


async def test_a_stream_that_breaks_leaves_whole_files_only(tmp_path: Path) -> None:
    data = packed([file("whole"), file("half", b"x" * 100_000)])
    with pytest.raises((StreamBroken, tarfile.TarError)):
        await bring(Sent(data[:60_000], breaks=True), tmp_path, force=False)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["whole"]


async def test_a_name_as_long_as_a_system_takes_is_brought(tmp_path: Path) -> None:
    longest = "实验结果" * 20 + "-" * 11 + ".txt"
    assert len(longest.encode()) == 255
    found = await brought(tmp_path, file("a"), file(longest), file("z"))
    assert found.written == 3
    assert (tmp_path / longest).read_bytes() == KEY


@pytest.mark.parametrize(
    "name",
    [
        ".git/hooks/post-checkout",
        "project/.git/config",
        ".git",
        ".GIT/config",
        ".ssh/authorized_keys",
        ".bashrc",
        ".config/systemd/user/x.service",
        ".netrc",
        "deep/.envrc",
        "id_rsa",
    ],
)
async def test_what_would_be_run_or_trusted_here_is_left_out_and_named(tmp_path: Path, name: str) -> None:
    found = await brought(tmp_path, file(name), file("work.ipynb"), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["work.ipynb"]
    assert found.believed.first == [name]
    assert found.plain()["left_out"] == [name]


async def test_a_link_is_no_way_around_that(tmp_path: Path) -> None:
    found = await brought(tmp_path, folder("mine"), file("mine/config"), link(".git", "mine"))
    assert found.believed.first == [".git"]
    assert not (tmp_path / ".git").is_symlink()


async def test_of_any_number_of_names_the_first_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    found = await brought(tmp_path, *(file(f"/{number:04}{'x' * 5000}") for number in range(300)))
    assert found.left_out.number == 300
    assert len(found.left_out.first) == 20
    assert sum(len(name) for name in found.left_out.first) < 10_000


def a_head(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, details: dict[str, str] | None = None
) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.pax_headers = kind, size, details or {}
    return entry.tobuf(tarfile.PAX_FORMAT)


HOLES = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "10"}
NOT_FILES = {
    "heads in front of heads": a_head("a", tarfile.XHDTYPE) * 3000,
    "holes that are no numbers": a_head("f", details={"GNU.sparse.size": "abc", "GNU.sparse.map": "1,2,3"}),
    "holes in front of a file": a_head("f", size=512, details=HOLES) + b"zz\n" + bytes(509),
    "holes of the old kind": a_head("f", tarfile.GNUTYPE_SPARSE),
    "details of all that follow": tarfile.TarInfo.create_pax_global_header({"comment": "x"}),
}


@pytest.mark.parametrize("sent", NOT_FILES.values(), ids=NOT_FILES)
async def test_what_is_no_archive_of_files_is_said_to_be_none(tmp_path: Path, sent: bytes) -> None:
    with pytest.raises(tarfile.TarError):
        await bring(Sent(sent + bytes(10240)), tmp_path, force=False)
    assert list(tmp_path.iterdir()) == []


async def test_a_name_that_is_too_long_here_keeps_nothing_else_away(tmp_path: Path) -> None:
    found = await brought(tmp_path, file("y" * 300), file("z"))
    assert found.left_out.number == 1
    assert (tmp_path / "z").read_bytes() == KEY
