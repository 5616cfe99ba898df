"""The agent as a service of systemd: the unit's text, and putting it there and taking it away.

Guests outlive their agent, so only the agent is ended when it is restarted, and the machine's lack of memory
in a guest is no reason to end the rest. What would shut guests in twice is left out where it keeps them from
being shut in at all: bubblewrap needs a /proc that nothing covers, host names and namespaces of its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.shutdown import ASK_LIMIT_S, NOTICE_MOST_S, TIDY_S

UNIT_NAME = "gpunion-agent.service"
SYSTEM_UNITS = Path("/etc/systemd/system")
LINGER_DIR = Path("/var/lib/systemd/linger")
# Everybody may ask that for themselves.
LET_LINGER = "loginctl enable-linger (it needs no root)"
ENGINE_VARIABLES = (
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF",
    "XDG_DATA_HOME",
)  # fmt: skip
CALL_LIMIT_S = 60.0
# Also for an agent that is slow to end its own things.
STOP_LIMIT_S = ASK_LIMIT_S + NOTICE_MOST_S + 2 * TIDY_S + 15.0
# Beside the agent's own cgroup guests' can have controllers, so that the kernel limits memory and CPU.
SUBGROUP, SUBGROUP_SINCE = "agent", 254
# Nothing an agent, a sandbox or an engine does needs these.
CAPABILITIES_NEVER = (
    "CAP_SYS_MODULE", "CAP_SYS_BOOT", "CAP_SYS_TIME", "CAP_SYS_RAWIO", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE",
    "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_AUDIT_CONTROL",
)  # fmt: skip


class ServiceTrouble(Exception):
    """What did not work and what to do next, in words for the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """`user`: of one user's own systemd, which needs no root."""

    state_dir: Path
    runtime: str
    user: bool
    python: str = sys.executable
    systemd_version: int = field(default_factory=lambda: systemd_version())
    path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    engine: Mapping[str, str] = field(default_factory=lambda: which_engine(os.environ))

    @property
    def unit_file(self) -> Path:
        return (_user_units() if self.user else SYSTEM_UNITS) / UNIT_NAME

    @property
    def systemctl(self) -> list[str]:
        return ["systemctl", *(["--user"] if self.user else [])]


def which_engine(environment: Mapping[str, str]) -> dict[str, str]:
    """What says which Docker or Podman is meant: a service would find another than its owner has tried."""
    return {name: environment[name] for name in ENGINE_VARIABLES if environment.get(name)}


class Systemd:
    """The one of this machine."""

    def runs(self) -> bool:
        return os.path.isdir("/run/systemd/system") and shutil.which("systemctl") is not None

    def call(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceTrouble(f"{' '.join(command)} did not work: {error}") from error
        if done.returncode != 0:
            said = done.stderr.strip()[-300:] or f"it ended with {done.returncode}"
            raise ServiceTrouble(f"{' '.join(command)} did not work: {said}")


def unit_text(service: Service) -> str:
    lines = [
        "[Unit]",
        "Description=GPUnion agent: lends this machine on its owner's terms",
        "Wants=network-online.target",
        "After=network.target network-online.target nss-lookup.target docker.service",
        "# It comes back however often it fails: its guests' leases depend on it.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={_quoted(service.python)} -P -m gpunion agent {_state_dir_words(service)}",
        *(
            f"Environment={_quoted(f'{name}={value}', program=False)}"
            for name, value in {"PATH": service.path, **service.engine}.items()
        ),
        "Restart=on-failure",
        "RestartSec=2",
        "# When the machine is shut down, its guests are saved first.",
        f"TimeoutStopSec={STOP_LIMIT_S:.0f}",
        "# Guests outlive their agent: a restart or an upgrade ends nobody's work.",
        "KillMode=process",
        "# Guests get cgroups of their own below this unit's.",
        "Delegate=yes",
        *([f"DelegateSubgroup={SUBGROUP}"] if service.systemd_version >= SUBGROUP_SINCE else []),
        "# A guest that ran out of memory is the guest's trouble.",
        "OOMPolicy=continue",
        "UMask=0077",
        "",
        *_hardening(service),
        "",
        "[Install]",
        f"WantedBy={'default.target' if service.user else 'multi-user.target'}",
    ]
    return "\n".join(lines) + "\n"


def _hardening(service: Service) -> list[str]:
    if service.user and service.runtime == "podman":
        return [
            "# Rootless Podman maps its users with programs that gain privileges: nothing may forbid that."
        ]
    lines = [
        "NoNewPrivileges=yes",
        "LockPersonality=yes",
        "RestrictRealtime=yes",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    ]
    if service.user:
        return lines
    return [*lines, "ProtectSystem=full", f"CapabilityBoundingSet=~{' '.join(CAPABILITIES_NEVER)}"]


def install(service: Service, systemd: Systemd | None = None) -> None:
    """Write the unit and start it, now and with the machine."""
    systemd = systemd or Systemd()
    _need(systemd, service)
    path = service.unit_file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_text(unit_text(service), encoding="utf-8")
        unfinished.chmod(0o644)
        unfinished.rename(path)
    except OSError as error:
        raise ServiceTrouble(
            f"{path} cannot be written: {error.strerror}. Next: run this as root, or with --user"
        ) from error
    for words in (["daemon-reload"], ["enable", UNIT_NAME], ["restart", UNIT_NAME]):
        systemd.call([*service.systemctl, *words])


def uninstall(service: Service, systemd: Systemd | None = None) -> bool:
    """Stop the agent for good and take the unit away; False where there was none. Guests are not ended."""
    systemd = systemd or Systemd()
    path = service.unit_file
    if not path.exists():
        return False
    if systemd.runs():
        systemd.call([*service.systemctl, "disable", "--now", UNIT_NAME])
    try:
        path.unlink()
    except OSError as error:
        raise ServiceTrouble(f"{path} cannot be removed: {error.strerror}. Next: run this as root") from error
    if systemd.runs():
        systemd.call([*service.systemctl, "daemon-reload"])
    return True


def installed(state_dir: Path) -> list[Service]:
    """Those on this machine that start an agent over this directory, as far as this user can see them."""
    found = []
    for user in (False, True):
        service = Service(state_dir=state_dir, runtime="", user=user)
        try:
            text = service.unit_file.read_text(encoding="utf-8", errors="replace")
        except (OSError, RuntimeError):  # the latter: of a user without a home
            continue
        if f"{_state_dir_words(service)}\n" in text:
            found.append(service)
    return found


def _need(systemd: Systemd, service: Service) -> None:
    if not systemd.runs():
        raise ServiceTrouble(
            "systemd does not run this machine, so there is nothing to install into. "
            f"Next: start it yourself, now and after a boot: gpunion agent --state-dir {service.state_dir}"
        )
    if not service.user and os.geteuid() != 0:
        raise ServiceTrouble("a service of the machine is root's. Next: run this as root, or with --user")


def lingers(uid: int, folder: Path = LINGER_DIR) -> bool:
    """Whether systemd lets what this user started go on when the user has logged out."""
    try:
        return (folder / pwd.getpwuid(uid).pw_name).exists()
    except KeyError:
        return False


def systemd_version() -> int:
    """0 where there is none that says so."""
    try:
        said = subprocess.run(
            ["systemctl", "--version"], capture_output=True, text=True, timeout=CALL_LIMIT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    words = said.split()[1:2]
    return int(words[0]) if words and words[0].isdecimal() else 0


def _user_units() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "systemd" / "user"


def _state_dir_words(service: Service) -> str:
    return f"--state-dir {_quoted(str(service.state_dir))}"


def _quoted(text: str, *, program: bool = True) -> str:
    """As systemd reads it: percent signs doubled, and dollar signs in the words of a `program`."""
    if any(sign < " " for sign in text):
        raise ServiceTrouble(f"{text!r} cannot stand in a unit: it has a line break or the like")
    doubled = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{doubled.replace("$", "$$") if program else doubled}"'
