"""The session's files as a tar stream, for who fetches them while it goes on."""

from __future__ import annotations

import os
import socket
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

SOCKET = "files.sock"
ASKED = b"tar\n"
ANSWER_LIMIT_S = 60.0  # of one piece: who reads nothing for so long is let go


def serve_files(root: Path, connection: socket.socket) -> None:
    connection.settimeout(ANSWER_LIMIT_S)
    asked = b""
    while not asked.endswith(b"\n") and len(asked) < len(ASKED):
        piece = connection.recv(len(ASKED) - len(asked))
        if not piece:
            return
        asked += piece
    if asked != ASKED:
        return
    with connection.makefile("wb") as out:
        send_tree(root, out)


def send_tree(root: Path, out: BinaryIO) -> None:
    """Regular files, directories and links. What changes meanwhile keeps the length it was told with."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in _entries(root):
            _add(archive, path, path.relative_to(root).as_posix())


def _entries(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted([*names, *files]):
            yield Path(folder, name)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    try:
        about = path.lstat()
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            return
        entry = archive.gettarinfo(str(path), arcname=name)
        if entry.islnk():  # a file with two names is two files elsewhere
            entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", about.st_size
        if not entry.isreg():
            archive.addfile(entry)
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return  # it is gone, or nobody may read it
    with open(descriptor, "rb") as file:
        archive.addfile(entry, _Exactly(file, entry.size))  # type: ignore[arg-type]


class _Exactly:
    """Of a file that was cut short meanwhile, zeros for what is gone: the stream has promised a length."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file, self._left_bytes = file, size_bytes

    def read(self, count: int) -> bytes:
        count = min(count, self._left_bytes)
        piece = self._file.read(count)
        piece += bytes(count - len(piece))
        self._left_bytes -= count
        return piece
