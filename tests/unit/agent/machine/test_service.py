"""The agent as a service: what the unit says, and that it goes as it came."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpunion.agent.machine.service import (
    UNIT_NAME,
    Service,
    ServiceTrouble,
    Systemd,
    install,
    installed,
    uninstall,
    unit_text,
    which_engine,
)


@dataclass
class SystemdDouble(Systemd):
    running: bool = True
    calls: list[str] = field(default_factory=list)

    def runs(self) -> bool:
        return self.running

    def call(self, command: list[str]) -> None:
        self.calls.append(" ".join(command))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Service(state_dir=tmp_path / "a $state %dir", runtime="sandbox", user=True)


@pytest.mark.parametrize("user", [True, False])
@pytest.mark.parametrize("runtime", ["sandbox", "podman"])
def test_guests_outlive_their_agent_and_systemd_understands_every_line(
    tmp_path: Path, user: bool, runtime: str
) -> None:
    text = unit_text(Service(state_dir=tmp_path / "a $state %dir", runtime=runtime, user=user))
    assert {"KillMode=process", "Delegate=yes", "OOMPolicy=continue"} <= set(text.splitlines())
    # What bubblewrap could not work under: a /proc with covered parts, no namespaces, no host name.
    for word in ("ProtectKernelTunables", "ProtectControlGroups", "RestrictNamespaces", "ProtectHostname"):
        assert word not in text
    if shutil.which("systemd-analyze"):
        unit = tmp_path / UNIT_NAME
        unit.write_text(text.replace("docker.service", "").replace("network-online.target", ""))
        said = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
        assert UNIT_NAME not in said.stderr, said.stderr


def test_a_service_finds_the_engine_that_its_owner_named(tmp_path: Path) -> None:
    named = {"DOCKER_HOST": "unix:///run/user/1000/docker.sock", "DOCKER_CONTEXT": "", "SECRET": "x"}
    service = Service(state_dir=tmp_path, runtime="docker", user=True, engine=which_engine(named))
    lines = [line for line in unit_text(service).splitlines() if line.startswith("Environment=")]
    assert lines[1:] == ['Environment="DOCKER_HOST=unix:///run/user/1000/docker.sock"']


def test_where_systemd_can_the_agent_is_beside_its_guests_and_not_around_them(tmp_path: Path) -> None:
    units = [
        unit_text(Service(state_dir=tmp_path, runtime="sandbox", user=False, systemd_version=version))
        for version in (252, 255)
    ]
    assert ["DelegateSubgroup=agent" in text for text in units] == [False, True]


def test_a_service_goes_as_it_came(service: Service) -> None:
    systemd = SystemdDouble()
    install(service, systemd)
    assert service.unit_file.read_text() == unit_text(service)
    assert [found.unit_file for found in installed(service.state_dir)] == [service.unit_file]
    assert installed(service.state_dir / "other") == []
    assert uninstall(service, systemd)
    assert list(service.unit_file.parent.iterdir()) == []
    assert not uninstall(service, systemd)
    assert systemd.calls == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {UNIT_NAME}",
        f"systemctl --user restart {UNIT_NAME}",
        f"systemctl --user disable --now {UNIT_NAME}",
        "systemctl --user daemon-reload",
    ]


def test_without_systemd_it_says_how_to_start_the_agent(service: Service) -> None:
    with pytest.raises(ServiceTrouble, match="Next: start it yourself"):
        install(service, SystemdDouble(running=False))
    assert not service.unit_file.exists()
