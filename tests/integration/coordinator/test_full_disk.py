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
