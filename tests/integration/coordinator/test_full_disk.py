"""A coordinator whose disk is really full: it stays, says so, and goes on when there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant, OrderFrame, ReportFrame
from gpunion.domain.protocol.reports import RunStarted
from gpunion.sdk.errors import ApiProblem
from tests.integration.agent.small_disk import SmallDisk
from tests.integration.coordinator.process import Coordinator, a_job, run_of

pytestmark = pytest.mark.requires("tmpfs")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", 16 * 2**20)
    yield disk
    disk.remove()


def test_a_full_disk_under_the_history_costs_no_job_and_no_figures(disk: SmallDisk, tmp_path: Path) -> None:
    """It lies where its disk alone is full. What was counted meanwhile is there once there is room."""
    coordinator = Coordinator(tmp_path / "data")
    coordinator.data_dir.mkdir(mode=0o700)
    (coordinator.data_dir / "usage.db").symlink_to(disk.folder / "usage.db")
    coordinator.start()
    try:
        with coordinator.node() as node, coordinator.client() as client:
            assert client.usage(for_s=3600.0)["history_trouble"] == ""
            disk.fill()
            before = client.usage(for_s=3600.0)
            assert str(coordinator.data_dir / "usage.db") in before["history_trouble"]
            first = client.submit(a_job())["job"]
            assert node.receive_a(OrderFrame).order.job_id == first["id"]
            assert client.submit(a_job(name="second"))["job"]["id"]
            disk.make_room()
            after = client.usage(for_s=3600.0)
        assert after["history_trouble"] == ""
        [lab] = after["labs"]
        assert lab["open_gpu_h"] > sum(one["open_gpu_h"] for one in before["labs"])
        disk.fill()
        code, _, err = coordinator.end()
        assert code == 0, err
    finally:
        coordinator.stop()


def test_a_coordinator_that_ended_on_a_full_disk_says_so_and_starts_once_there_is_room(
    disk: SmallDisk,
) -> None:
    """It was ended in good order, so even the index of its database's log has to be made anew."""
    coordinator = Coordinator(disk.folder / "data").start()
    try:
        with coordinator.client() as client:
            job = client.submit(a_job())["job"]
        coordinator.end()
        disk.fill()
        coordinator.process = coordinator.spawn()
        code, _, err = coordinator.ended()
        assert code == 1, err
        assert f"the disk of {coordinator.data_dir} is full: 0 bytes of" in err
        assert f"make room where it keeps its data: df -h {coordinator.data_dir}" in err
        assert "backup" not in err
        disk.make_room()
        with coordinator.start().client() as client:
            assert [known["id"] for known in client.jobs()["jobs"]] == [job["id"]]
    finally:
        coordinator.stop()


def test_with_a_full_disk_nothing_new_is_accepted_leases_go_on_and_room_mends_it(disk: SmallDisk) -> None:
    coordinator = Coordinator(disk.folder / "data").start()
    try:
        with coordinator.node() as node, coordinator.client() as client:
            job = client.submit(a_job())["job"]
            order = node.receive_a(OrderFrame)
            disk.fill()
            with pytest.raises(ApiProblem) as refused:
                client.submit(a_job(name="second"))
            assert (refused.value.status, refused.value.code) == (507, "no_room")
            assert f"{coordinator.data_dir} is full: 0 bytes of" in str(refused.value)
            assert [known["id"] for known in client.jobs()["jobs"]] == [job["id"]]
            assert client.why(job["id"])["story"]
            began = RunStarted(
                run_id=run_of(job), job_id=job["id"], epoch=1, restored=None, resumed_step=0, restore_s=0.1
            )
            report = ReportFrame(seq=1, ack=order.seq, sent_s=0.0, report=began)
            node.send(report)
            node.send(Heartbeat(sent_s=0.0, ack=order.seq))
            assert node.receive_a(LeaseGrant).ack == 0
            assert client.job(job["id"])["phase"] == "starting"
            disk.make_room()
            node.send(report)
            node.send(Heartbeat(sent_s=0.0, ack=order.seq))
            assert node.receive_a(LeaseGrant).ack == 1
            assert client.job(job["id"])["phase"] == "running"
            client.submit(a_job(name="second"))
        disk.fill()
        code, _, err = coordinator.end()
        assert code == 0, err
        disk.make_room()
        with coordinator.start().client() as client:
            assert len(client.jobs()["jobs"]) == 2
    finally:
        coordinator.stop()
