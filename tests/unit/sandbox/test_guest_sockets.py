"""A guest puts into its folder of sockets what it likes: its agent reaches one of the guest's, or none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper.streams.guest_sockets import TakesNone, connect, connected
from gpunion.ports.guest_streams import NotReached


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch" / "sockets").mkdir(parents=True)
    return tmp_path / "scratch"


@pytest.fixture
def hosts_own(tmp_path: Path) -> Iterator[Path]:
    """A socket of the host's that a guest must not reach by its agent's hands."""
    path = tmp_path / "host.sock"
    with listening(path):
        yield path


def listening(path: Path) -> socket.socket:
    """Bound by a short name: an address has room for 107 bytes."""
    found, before = socket.socket(socket.AF_UNIX), os.open(".", os.O_RDONLY)
    try:
        os.chdir(path.parent)
        found.bind(path.name)
    finally:
        os.fchdir(before)
        os.close(before)
    found.listen(1)
    return found


def test_a_socket_of_the_guests_is_reached_however_long_its_path_is(tmp_path: Path) -> None:
    scratch = tmp_path / ("deep" * 40) / "scratch"
    (scratch / "sockets").mkdir(parents=True)
    with listening(scratch / "sockets" / "lab.sock") as listener, connect(scratch, "lab.sock") as here:
        there, _ = listener.accept()
        there.sendall(b"hello")
        there.close()
        here.setblocking(True)
        assert here.recv(9) == b"hello"


def test_a_link_to_a_socket_of_the_hosts_is_not_followed(scratch: Path, hosts_own: Path) -> None:
    (scratch / "sockets" / "lab.sock").symlink_to(hosts_own)
    with pytest.raises(NotReached, match="is no socket"):
        connect(scratch, "lab.sock")


def test_a_folder_that_is_a_link_is_not_followed(scratch: Path, hosts_own: Path) -> None:
    (scratch / "sockets").rmdir()
    (scratch / "sockets").symlink_to(hosts_own.parent)
    with pytest.raises(NotReached, match="no sockets"):
        connect(scratch, "host.sock")


def test_a_name_with_a_path_in_it_leads_nowhere_else(scratch: Path, hosts_own: Path) -> None:
    """Nobody asks for one: names come from a closed list."""
    with pytest.raises(NotReached):
        connect(scratch, "no-such/../../../nothing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
def test_a_socket_of_another_user_is_not_spoken_to(scratch: Path, hosts_own: Path) -> None:
    os.link(hosts_own, scratch / "sockets" / "lab.sock")
    os.chown(scratch, 60_706, 60_706)
    with pytest.raises(NotReached, match=r"somebody else \(user 0\)"):
        connect(scratch, "lab.sock")


def test_after_a_restore_whoever_listens_is_of_the_guests_range(scratch: Path) -> None:
    with listening(scratch / "sockets" / "lab.sock"):
        connect(scratch, "lab.sock", range(os.geteuid(), os.geteuid() + 1)).close()
        with pytest.raises(NotReached, match="somebody else"):
            connect(scratch, "lab.sock", range(1_900_000_000, 1_900_065_536))


def test_what_is_no_socket_or_has_nobody_listening_is_said(scratch: Path) -> None:
    (scratch / "sockets" / "lab.sock").write_text("not one")
    with pytest.raises(NotReached, match="is no socket"):
        connect(scratch, "lab.sock")
    listening(scratch / "sockets" / "ssh.sock").close()
    with pytest.raises(NotReached, match="nobody listens"):
        connect(scratch, "ssh.sock")
    with pytest.raises(NotReached, match=r"no files\.sock"):
        connect(scratch, "files.sock")


async def test_one_that_takes_no_connections_just_now_is_waited_for(scratch: Path) -> None:
    with listening(scratch / "sockets" / "lab.sock") as listener:
        waiting = []
        with contextlib.suppress(TakesNone):
            while True:
                waiting.append(connect(scratch, "lab.sock"))
        connecting = asyncio.create_task(connected(scratch, "lab.sock"))
        await asyncio.sleep(0)
        for one in waiting:
            listener.accept()[0].close()
            one.close()
        (await connecting).close()
