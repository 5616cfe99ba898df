"""A real sshd for the guest's user: one `sshd -i` for each connection to a socket, no port and no root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from gpunion.sdk.session.places import Places

SOCKET = "ssh.sock"
SSHD_PLACES = "/usr/sbin:/usr/local/sbin:/sbin"
KEEPS = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "OLDPWD", "SHLVL", "_"})
VALUE_MAX_CHARS = 4000

CONFIG = """\
HostKey {key}
AuthorizedKeysFile {authorized}
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
PrintMotd no
LogLevel ERROR
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
X11Forwarding no
Subsystem sftp internal-sftp -d {files}
SetEnv {environment}
"""
# Whoever comes by ssh begins where the notebooks are, in the one folder that is kept; rsync too. bash reads
# the first for a command, the second for who logs in.
BASHRC = """\
[ "$PWD" = "$HOME" ] && cd {files}
[ -n "$PS1" ] && PS1='\\u@'"$GPUNION_SESSION_NAME"':\\w\\$ '
"""
BASH_PROFILE = ". ~/.bashrc\n"


class NoSsh(Exception):
    """There is no sshd for this guest, and why."""


class SshServer:
    def __init__(self, places: Places, environment: Mapping[str, str]) -> None:
        self._program = _program()
        self._places = places
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._config = places.own / "ssh" / "sshd_config"
        _prepare(places, self._config, environment)

    def serve(self, connection: socket.socket) -> None:
        """Until the user is gone."""
        log = self._places.own / "ssh" / "log"
        with open(log, "ab") as said:
            child = subprocess.Popen(
                [self._program, "-i", "-f", str(self._config)],
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                stderr=said,
            )
        connection.close()
        with self._lock:
            self._children.add(child)
        child.wait()
        with self._lock:
            self._children.discard(child)

    def cpu_ticks(self) -> int | None:
        """What serving its users has taken: it grows as long as bytes flow. None: nobody is there."""
        with self._lock:
            children = list(self._children)
        return sum(_ticks(child.pid) for child in children) if children else None

    def close(self) -> None:
        with self._lock:
            for child in self._children:
                with contextlib.suppress(OSError):
                    child.send_signal(signal.SIGTERM)


def _program() -> str:
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{SSHD_PLACES}")
    if program is None:
        raise NoSsh("there is no sshd in this environment or image (openssh-server)")
    try:
        pwd.getpwnam("sshd")
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise NoSsh("sshd does not start without a user named sshd and one for the guest") from None
    if shutil.which("ssh-keygen") is None:
        raise NoSsh("there is no ssh-keygen in this environment or image (openssh-client)")
    return program


def _prepare(places: Places, config: Path, environment: Mapping[str, str]) -> None:
    folder = config.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = places.kept / "ssh-host-key"  # the same after a move: else the client warns of another host
    if not key.exists():
        made = subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpunion", "-f", str(key)],
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            raise NoSsh(f"no host key could be made: {made.stderr.decode(errors='replace')[:100]}")
    key.chmod(0o600)
    authorized = folder / "authorized_keys"
    authorized.write_text(places.ssh_keys.rstrip("\n") + "\n", encoding="utf-8")
    words = CONFIG.format(
        key=key, authorized=authorized, files=places.files, environment=_variables(environment)
    )
    config.write_text(words, encoding="utf-8")
    for name, text in ((".bashrc", BASHRC.format(files=places.files)), (".bash_profile", BASH_PROFILE)):
        with contextlib.suppress(OSError):
            if not (Path.home() / name).exists():
                (Path.home() / name).write_text(text, encoding="utf-8")


def _variables(environment: Mapping[str, str]) -> str:
    """What the session's programs have: sshd would begin with next to nothing."""
    passed = {
        name: value
        for name, value in environment.items()
        if name not in KEEPS and not name.startswith("SSH_") and len(value) <= VALUE_MAX_CHARS
    }
    fit = {name: value for name, value in passed.items() if not set('"\n\r\\') & set(name + value)}
    return " ".join(f'"{name}={value}"' for name, value in fit.items())


def _ticks(pid: int) -> int:
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        )
    except (OSError, IndexError):
        return 0
    return int(fields[11]) + int(fields[12])
