"""What a session's guest tells, and what it sends of its files."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
import threading
from pathlib import Path

import pytest

from gpunion.sdk.session.files import send_tree, serve_files
from gpunion.sdk.session.obstacles import why_not_whole
from gpunion.sdk.session.server import notebooks_file
from gpunion.sdk.session.server.notebooks_file import Kernel, Notebook
from gpunion.sdk.session.sockets import Listener
from gpunion.sdk.session.told import FILE, LACKING_MAX, NAME_MAX_CHARS, Teller

ONE_CONNECTED = (
    "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n"
    "   1: 0100007F:9C47 0100007F:1F90 01 0\n"
)


def told(control: Path) -> dict[str, object]:
    return dict(json.loads((control / FILE).read_text()))


def test_a_list_of_any_length_is_told_within_bounds(tmp_path: Path) -> None:
    teller = Teller(tmp_path)
    teller.change(missing=tuple(("x" * 500, "y" * 5000) for _ in range(5000)), ready=True)
    teller.tell()
    missing = told(tmp_path)["missing"]
    assert isinstance(missing, list)
    assert len(missing) == LACKING_MAX
    assert missing[-1]["name"] == f"{5000 - LACKING_MAX + 1} more"
    assert len(missing[0]["name"]) == NAME_MAX_CHARS
    assert (tmp_path / FILE).stat().st_size < 64 * 1024


def test_a_list_in_letters_of_many_bytes_is_within_bounds_too(tmp_path: Path) -> None:
    teller = Teller(tmp_path)
    teller.change(
        missing=(("\u53d8" * 80, "\u91cf" * 160),) * 500, unsaved=(("\u53d8" * 80, "\u91cf" * 160),) * 500
    )
    teller.tell()
    assert (tmp_path / FILE).stat().st_size < 64 * 1024
    unsaved = told(tmp_path)["unsaved"]
    assert isinstance(unsaved, list)
    assert len(unsaved) > 10


def test_it_is_told_again_when_something_changed(tmp_path: Path) -> None:
    teller = Teller(tmp_path)
    teller.tell()
    (tmp_path / FILE).unlink()
    teller.tell()
    assert not (tmp_path / FILE).exists()
    teller.change(kernels=1)
    teller.tell()
    assert told(tmp_path)["kernels"] == 1


def test_a_disk_that_takes_nothing_ends_nobody(tmp_path: Path) -> None:
    teller = Teller(tmp_path / "not-there")
    teller.tell()


def test_files_come_as_an_archive_without_sockets_and_outside_of_it(tmp_path: Path) -> None:
    root = tmp_path / "files"
    (root / "a").mkdir(parents=True)
    (root / "a" / "one.txt").write_text("one")
    os.link(root / "a" / "one.txt", root / "two.txt")
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")
    out = io.BytesIO()
    send_tree(root, out)
    out.seek(0)
    with tarfile.open(fileobj=out, mode="r|") as archive:
        found = {entry.name: entry.type for entry in archive}
    assert found == {
        "a": tarfile.DIRTYPE,
        "a/one.txt": tarfile.REGTYPE,
        "two.txt": tarfile.REGTYPE,
        "link": tarfile.SYMTYPE,
    }


def test_files_are_sent_to_who_asks_through_the_socket(tmp_path: Path) -> None:
    root = tmp_path / "files"
    root.mkdir()
    (root / "one.txt").write_text("one")
    listener = Listener(tmp_path / "files.sock", lambda connection: serve_files(root, connection))
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(tmp_path / "files.sock"))
            asking.sendall(b"tar\n")
            with tarfile.open(fileobj=asking.makefile("rb"), mode="r|") as archive:
                assert [entry.name for entry in archive] == ["one.txt"]
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(tmp_path / "files.sock"))
            asking.sendall(b"rm *")
            assert asking.recv(1) == b""
    finally:
        listener.close()


def test_a_socket_deep_in_the_disk_is_listened_at(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    served = threading.Event()
    listener = Listener(deep / "s.sock", lambda connection: served.set())
    folder = os.open(deep, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(f"/proc/self/fd/{folder}/s.sock")
            assert asking.recv(1) == b""
        assert served.is_set()
    finally:
        os.close(folder)
        listener.close()


def test_an_open_tcp_connection_is_seen_as_what_a_dump_refuses(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(ONE_CONNECTED)
    assert "port 40007" in why_not_whole(tmp_path)


def test_a_shell_that_a_dump_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (dash) S 1 7 7 34816 7 0")
    assert "dash" in why_not_whole(tmp_path)
    (tmp_path / "7" / "stat").write_text("7 (bash) S 1 7 7 34816 7 0")
    assert why_not_whole(tmp_path) == ""


def test_notebooks_are_read_as_they_were_written(tmp_path: Path) -> None:
    kernels = (
        Kernel(
            id="a-b",
            kind="python3",
            notebooks=(Notebook(id="1", path="x/a.ipynb", name="a", type="notebook"),),
        ),
        Kernel(id="c", kind="ir"),
    )
    notebooks_file.write(tmp_path, kernels)
    assert notebooks_file.read(tmp_path) == kernels


@pytest.mark.parametrize(
    "text", ["", "7", "{}", "[7]", '[{"id": "x"}]', '[{"id":"a","kind":"b","notebooks":3}]']
)
def test_a_list_of_notebooks_that_is_none_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / notebooks_file.FILE).write_text(text)
    assert notebooks_file.read(tmp_path) == ()


def test_a_kernel_cannot_name_a_folder_elsewhere(tmp_path: Path) -> None:
    (tmp_path / notebooks_file.FILE).write_text('[{"id": "../../x", "kind": "python3", "notebooks": []}]')
    assert notebooks_file.read(tmp_path)[0].id == "x"
