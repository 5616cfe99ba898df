"""What owners and operators do to machines that systemd runs, done to such machines: `make machines`.

The machines are shared, and each test leaves them as it found them: both lend, and nothing runs on them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.machines import lab
from tests.machines.campus import GPUNION, MEMORY_BYTES, CampusOfMachines, guests_on
from tests.machines.lab import Lab, Machine, eventually

WHY_NOT = lab.why_not()
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    pytest.mark.xdist_group("machines"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampusOfMachines]:
    opened = Lab(tmp_path_factory.mktemp("machines"))
    opened.open()
    try:
        campus = CampusOfMachines(opened)
        campus.open()
        yield campus
    finally:
        opened.close()


@pytest.fixture
def job(campus: CampusOfMachines) -> Iterator[str]:
    job = campus.submit()
    yield job
    campus.stop(job)
    eventually(lambda: not any(map(guests_on, campus.lenders.values())), "nothing runs any more")


def goes_on_at(campus: CampusOfMachines, job: str, machine: Machine) -> None:
    eventually(lambda: campus.where(job) is machine, f"it runs on {machine.name}")
    before = campus.durable(job)
    eventually(lambda: campus.durable(job) > before, "it is saved there")
    assert len(guests_on(machine)) == 1


def lends_again(campus: CampusOfMachines, machine: Machine) -> None:
    eventually(lambda: campus.phases().get(machine.name) == "sharing", f"{machine.name} lends again")


def test_the_coordinator_keeps_its_admin_token_out_of_the_journal(campus: CampusOfMachines) -> None:
    journal = campus.hub.do("journalctl -u gpunion-coordinator -o cat")
    assert "kept in /srv/gpunion/admin.token" in journal
    assert "gpunion-admin-" not in journal


def test_the_kernel_limits_a_guest_and_its_owner_can_read_the_journal(
    campus: CampusOfMachines, job: str
) -> None:
    host = campus.host_of(job)
    cgroup = host.do("find /sys/fs/cgroup -type d -name 'gpunion-job*'").strip()
    assert cgroup.startswith(
        "/sys/fs/cgroup/gpunion/"
        if host is campus.old
        else "/sys/fs/cgroup/system.slice/gpunion-agent.service/"
    )
    assert host.do(f"cat {cgroup}/memory.max {cgroup}/cpu.max").split() == [
        str(MEMORY_BYTES),
        "50000",
        "100000",
    ]
    assert guests_on(host)[0] in host.do(f"cat {cgroup}/cgroup.procs").split()
    assert "agent_started" in host.do("journalctl -u gpunion-agent -o cat -p info")
    assert '{"' not in host.do("journalctl -u gpunion-agent -o cat")
    assert host.ask(f"{GPUNION} doctor").returncode == 0


def test_a_machine_that_is_switched_off_saves_its_guest_first_and_lends_again_when_it_is_on(
    campus: CampusOfMachines, job: str
) -> None:
    host = campus.host_of(job)
    host.ask("systemctl poweroff")
    eventually(host.is_off, f"{host.name} is off")
    goes_on_at(campus, job, campus.other(host))
    story = " / ".join(campus.story(job))
    assert "it is being shut down" in story
    assert "0 steps to redo" in story
    host.switch_on()
    host.until_up()
    lends_again(campus, host)


def test_a_job_leaves_when_the_owner_comes_back(campus: CampusOfMachines, job: str) -> None:
    host = campus.host_of(job)
    host.do(f"{GPUNION} reclaim --notice 20s")
    goes_on_at(campus, job, campus.other(host))
    assert guests_on(host) == []
    host.do(f"{GPUNION} resume")
    lends_again(campus, host)


def test_with_its_cable_cut_a_guest_goes_on_elsewhere_and_nowhere_twice(
    campus: CampusOfMachines, job: str
) -> None:
    host = campus.host_of(job)
    host.unplug()
    try:
        goes_on_at(campus, job, campus.other(host))
    finally:
        host.plug_in()
    lends_again(campus, host)
    eventually(lambda: guests_on(host) == [], "the one without a cable has ended")


def test_after_a_power_cut_a_job_goes_on_elsewhere_and_the_machine_comes_back_by_itself(
    campus: CampusOfMachines, job: str
) -> None:
    host = campus.host_of(job)
    host.cut_power()
    goes_on_at(campus, job, campus.other(host))
    host.switch_on()
    host.until_up()
    lends_again(campus, host)
    assert guests_on(host) == []
