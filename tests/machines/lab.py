"""Machines with a kernel, a disk and a systemd of their own, on a network of their own, inside this one.

The kernel is User Mode Linux, an ordinary program: no hardware for virtual machines is needed. Their cables
end at a bridge in a network namespace that nothing leads out of. A machine whose program is killed has had a
power cut; what it wrote is in a file beside its disk, so that it boots again with what it had.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

DISKS = Path(__file__).resolve().parents[2] / "build" / "machines"
RELEASES = ("bookworm", "trixie")
NETWORK = "10.77.0"
MEMORY = "1024M"
# A busy machine with two cores takes half a minute to boot one of these.
BOOT_LIMIT_S = 300.0
CALL_LIMIT_S = 300.0
LOOK_S = 0.5


def why_not() -> str:
    """Why there can be no such machines here; nothing where there can."""
    if os.environ.get("GPUNION_MACHINES") != "1":
        return "whole machines take minutes: make machines"
    if os.geteuid() != 0:
        return "whole machines are root's to make"
    absent = [program for program in ("linux.uml", "ip", "ssh", "scp") if shutil.which(program) is None]
    if absent or not os.path.exists("/dev/net/tun"):
        return f"no {', '.join(absent) or '/dev/net/tun'} here"
    missing = [release for release in RELEASES if not (DISKS / f"{release}.img").exists()]
    return f"no disk with {', '.join(missing)}: tools/make-machines" if missing else ""


def eventually(condition: Callable[[], object], what: str, limit_s: float = CALL_LIMIT_S) -> None:
    until_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until_s:
            raise AssertionError(f"after {limit_s:.0f} s it is not so that {what}")
        time.sleep(LOOK_S)


class Lab:
    """The network, and whoever is plugged in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.namespace = f"gpunion-{os.getpid()}"
        self.machines: list[Machine] = []

    def open(self) -> None:
        subprocess.run(["ip", "netns", "add", self.namespace], check=True)
        self.inside("ip", "link", "add", "campus", "type", "bridge")
        self.inside("ip", "address", "add", f"{NETWORK}.1/24", "dev", "campus")
        self.inside("ip", "link", "set", "campus", "up")

    def close(self) -> None:
        for machine in self.machines:
            machine.cut_power()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    def inside(self, *command: str) -> None:
        subprocess.run(["ip", "netns", "exec", self.namespace, *command], check=True, capture_output=True)

    def machine(self, name: str, release: str) -> Machine:
        made = Machine(lab=self, name=name, release=release, number=11 + len(self.machines))
        self.inside("ip", "tuntap", "add", "dev", made.cable, "mode", "tap")
        self.inside("ip", "link", "set", made.cable, "master", "campus")
        made.plug_in()
        self.machines.append(made)
        return made


@dataclass(slots=True, kw_only=True)
class Machine:
    lab: Lab
    name: str
    release: str
    number: int
    _program: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number}"

    @property
    def cable(self) -> str:
        return f"cable{self.number}"

    def switch_on(self) -> None:
        words = [
            *("ip", "netns", "exec", self.lab.namespace, "linux.uml", f"umid={self.name}", f"mem={MEMORY}"),
            *(f"uml_dir={self.lab.folder}", f"ubd0={self.name}.disk,{DISKS / self.release}.img"),
            *("root=/dev/ubda", "rw", f"eth0=tuntap,{self.cable},52:54:00:aa:00:{self.number:02x}"),
            *("con=null", "con0=null,fd:1", "console=tty0", f"machine={self.name}"),
            f"address={self.address}",
        ]
        with open(self.lab.folder / f"{self.name}.console", "ab") as console:
            self._program = subprocess.Popen(
                words,
                cwd=self.lab.folder,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def until_up(self) -> None:
        eventually(lambda: self._booted(), f"{self.name} has booted", BOOT_LIMIT_S)

    def _booted(self) -> bool:
        assert self._program is not None
        assert self._program.poll() is None, f"{self.name} is off; see {self.name}.console"
        return self.ask("systemctl is-system-running").stdout.strip() in ("running", "degraded")

    def is_off(self) -> bool:
        return self._program is None or self._program.poll() is not None

    def cut_power(self) -> None:
        if self._program is not None and self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()

    def plug_in(self) -> None:
        self.lab.inside("ip", "link", "set", self.cable, "up")

    def unplug(self) -> None:
        self.lab.inside("ip", "link", "set", self.cable, "down")

    def do(self, command: str) -> str:
        """What it says; it must work."""
        done = self.ask(command)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, command: str, *, text: str = "") -> subprocess.CompletedProcess[str]:
        words = ["ip", "netns", "exec", self.lab.namespace, "ssh", *_ways(), f"root@{self.address}", command]
        limit_s = CALL_LIMIT_S
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=limit_s, check=False)

    def put(self, file: Path, where: str) -> None:
        self.lab.inside("scp", *_ways(), str(file), f"root@{self.address}:{where}")

    def write(self, where: str, text: str) -> None:
        done = self.ask(f"cat > {where}", text=text)
        assert done.returncode == 0, done.stderr


def _ways() -> list[str]:
    options = (
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "ConnectTimeout=20",
        "BatchMode=yes",
    )
    return ["-q", "-i", str(DISKS / "key"), *(word for option in options for word in ("-o", option))]
