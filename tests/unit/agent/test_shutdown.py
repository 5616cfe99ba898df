"""A shutdown of the whole machine is told from a stop of the agent alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.agent import shutdown
from gpunion.agent.machine.service import STOP_LIMIT_S, Service, unit_text
from gpunion.agent.shutdown import NOTICE_MOST_S, TIDY_S, machine_shuts_down
from gpunion.domain.protocol.events import OwnerResumed
from tests.unit.agent.test_terms_in_force import House, house

__all__ = ["house"]  # the fixture

OF_THE_MACHINE = {"INVOCATION_ID": "1"}
OF_A_USER = {**OF_THE_MACHINE, "MANAGERPID": "7"}


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Says how the system is, and of a user's own systemd that it runs."""
    program = tmp_path / "systemctl"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --user ] && echo running && exit 0\ncat {tmp_path}/state\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("state", "shuts_down"), [("stopping", True), ("running", False), ("degraded", False)]
)
def test_systemd_is_asked_whether_everything_stops(systemctl: Path, state: str, shuts_down: bool) -> None:
    systemctl.write_text(f"{state}\n")
    assert machine_shuts_down(OF_THE_MACHINE) is shuts_down
    assert not machine_shuts_down(OF_A_USER)  # it is their own that is asked
    assert not machine_shuts_down({})  # nobody's service


def test_without_an_answer_guests_are_left_to_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not machine_shuts_down(OF_THE_MACHINE)


class Hurried:
    """A clock by which every look takes a second."""

    at_s = 0.0

    def now_s(self) -> float:
        self.at_s += 1.0
        return self.at_s


async def waited_s(house: House) -> float:
    """For a coordinator that is connected and acknowledges nothing."""
    clock = Hurried()
    house.loop.station.connected = True
    await shutdown.send_away(house.loop, clock, house._nothing)
    assert house.loop.station.reports.waiting
    return clock.at_s


async def test_a_shutdown_without_guests_waits_a_moment_for_the_campus_and_one_with_guests_for_them(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "LOOK_S", 0.0)
    assert await waited_s(house) < TIDY_S + 3.0
    await house.loop.owner_said(OwnerResumed())
    house.comes()
    assert NOTICE_MOST_S < await waited_s(house) < NOTICE_MOST_S + 2 * TIDY_S + 5.0 < STOP_LIMIT_S


def test_systemd_waits_for_as_long_as_guests_may_be_saved_and_takes_the_network_away_afterwards(
    tmp_path: Path,
) -> None:
    lines = unit_text(Service(state_dir=tmp_path, runtime="sandbox", user=False)).splitlines()
    [limit] = [line.partition("=")[2] for line in lines if line.startswith("TimeoutStopSec=")]
    assert float(limit) > NOTICE_MOST_S + 10
    [after] = [line.split("=")[1].split() for line in lines if line.startswith("After=")]
    assert {"network.target", "network-online.target", "nss-lookup.target"} <= set(after)
