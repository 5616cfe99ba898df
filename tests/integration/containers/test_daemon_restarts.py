"""Docker's daemon goes away under a running guest: a daemon of the test's own, nobody else's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.ports.runtime import ExitReason
from tests.integration.containers.conftest import Host
from tests.real_machine import PATIENCE_S, eventually
from tests.services import SYSTEM_PATH

pytestmark = pytest.mark.requires("docker")


class Daemon:
    def __init__(self, place: Path, *, live_restore: bool) -> None:
        self._place = place
        self._options = ["--bridge", "none", "--iptables=false", "--ip6tables=false"]
        self._options += [f"--live-restore={str(live_restore).lower()}", "--shutdown-timeout", "1"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self._place}/docker.sock"

    def start(self) -> None:
        command = ["dockerd", "--host", self.address, "--data-root", str(self._place / "data")]
        command += ["--exec-root", str(self._place / "exec"), "--pidfile", str(self._place / "pid")]
        with open(self._place / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._options], stdout=log, stderr=log, env={**os.environ, "PATH": SYSTEM_PATH}
            )
        eventually(self._answers)

    def stop(self, signum: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(signum)
            self._process.wait(PATIENCE_S)

    def leave(self) -> None:
        """With live-restore a daemon keeps its data folder mounted on itself for the next one."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop()
        # Asked of the kernel: a folder mounted on itself does not look mounted to os.path.ismount.
        if f" {self._place / 'data'} " in Path("/proc/self/mounts").read_text():
            subprocess.run(["umount", str(self._place / "data")], check=True)

    def _answers(self) -> bool:
        command = ["docker", "--host", self.address, "version"]
        return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def daemons(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], Daemon]]:
    """The socket's path has to be short, so the folder is not pytest's."""
    with tempfile.TemporaryDirectory(prefix="gpunion-d-", ignore_cleanup_errors=True) as folder:
        made: list[Daemon] = []

        def make(live_restore: bool) -> Daemon:
            daemon = Daemon(Path(folder), live_restore=live_restore)
            made.append(daemon)
            monkeypatch.setenv("DOCKER_HOST", daemon.address)
            daemon.start()
            return daemon

        yield make
        for daemon in made:
            daemon.leave()


SPEAKS_ON = "echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; exit 5"


def test_with_live_restore_a_guest_does_not_notice_a_new_daemon(
    daemons: Callable[[bool], Daemon], tmp_path: Path
) -> None:
    daemon = daemons(True)
    host = Host("docker", tmp_path / "state")
    try:
        root = host.start("sh", "-c", SPEAKS_ON)
        eventually(lambda: (root / "log.txt").read_text() == "before\n")
        daemon.stop()
        (root / "scratch" / "work" / "go").touch()
        eventually(lambda: (root / "log.txt").read_text() == "before\nafter\n")
        daemon.start()
        assert host.ended() == (ExitReason.EXITED, 5)
    finally:
        host.close()


def test_without_it_the_guest_is_lost_and_its_log_says_why(
    daemons: Callable[[bool], Daemon], tmp_path: Path
) -> None:
    daemon = daemons(False)
    host = Host("docker", tmp_path / "state")
    try:
        root = host.start("sh", "-c", "echo before; sleep 100000")
        daemon.stop()
        daemon.start()
        assert host.ended() == (ExitReason.LOST, 137)
        assert "docker itself stopped, and this guest with it" in (root / "log.txt").read_text()
    finally:
        host.close()
