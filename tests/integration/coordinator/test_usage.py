"""What was lent and used, asked of a real coordinator."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from datetime import datetime

import pytest

from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.frames import GpuReading, GpuReadings, Heartbeat, LeaseGrant, OrderFrame
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.sdk.errors import ApiProblem
from tests.integration.coordinator.process import Coordinator, a_job
from tests.integration.coordinator.test_agents import ended, settle, started


def test_use_is_told_by_person_and_lab_and_outlives_a_restart(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.node() as node, coordinator.client() as client:
        client.submit(a_job(user="ada", lab="vision"))
        start = node.receive_a(OrderFrame).order
        node.send(started(start, 1))
        settle(node)
        node.send(ended(start, 2, EndReason.FINISHED))
        settle(node)
        before = client.usage(for_s=3600.0)
        [request] = client.past_requests(for_s=3600.0)["requests"]
        with coordinator.client(node.credential) as stranger, pytest.raises(ApiProblem) as refused:
            stranger.usage(for_s=3600.0)
    assert refused.value.status == 403
    assert (request["user"], request["gpus"]) == ("ada", 1)
    assert request["submit_s"] <= request["first_ran_s"] <= request["ended_s"]
    assert request["work_s"] > 0
    [ada] = before["people"]
    assert (ada["user"], ada["lab"], ada["submitted"], ada["succeeded"]) == ("ada", "vision", 1, 1)
    assert 0 < ada["used_gpu_h"] == ada["borrowed_gpu_h"] < 1
    [lender] = [lab for lab in before["labs"] if lab["lab"] == "lab-a"]
    assert lender["lent_gpu_h"] == ada["borrowed_gpu_h"]
    assert 0 < lender["busy_gpu_h"] <= lender["open_gpu_h"]
    coordinator.end()
    coordinator.start()
    with coordinator.client() as client:
        after = client.usage(for_s=3600.0)
        assert client.usage(for_s=3600.0, user="nobody")["labs"] == []
    assert after["people"] == before["people"]
    assert after["history_since"] == before["history_since"]
    assert [lab["open_gpu_h"] for lab in after["labs"]] >= [lab["open_gpu_h"] for lab in before["labs"]]


def test_a_history_that_is_damaged_costs_figures_and_no_job(coordinator: Coordinator) -> None:
    coordinator.data_dir.mkdir()
    (coordinator.data_dir / "usage.db").write_bytes(b"no database at all" * 1000)
    coordinator.start()
    with coordinator.node() as node, coordinator.client() as client:
        client.submit(a_job())
        assert node.receive_a(OrderFrame).order.job_id
        assert "usage.db" in client.usage(for_s=3600.0)["history_trouble"]


GPU = Gpu(index=0, model="A100", memory_bytes=40 * GIB, declared=False)


def a_machine(figures: str) -> NodeFacts:
    capacity = Capacity(gpus=(GPU,), cpus=8.0, memory_bytes=64 * GIB, uplink_bps=1e9)
    return NodeFacts(lab="lab-a", capacity=capacity, terms=Terms(figures=figures))


def kept(coordinator: Coordinator) -> dict[str, int]:
    with closing(sqlite3.connect(coordinator.data_dir / "usage.db")) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table} WHERE node = 'alpha'").fetchone()[0]
            for table in ("phases", "gpu_rows")
        }


def test_what_an_owner_takes_back_is_gone_even_where_the_coordinator_died_of_it(
    coordinator: Coordinator,
) -> None:
    coordinator.start()
    with coordinator.node(facts=a_machine("full")) as node:
        credential = node.credential
        node.send(GpuReadings(gpus=(GpuReading(index=0, uuid="GPU-1", utilisation=0.5),)))
        node.send(Heartbeat(sent_s=1.0, ack=0))
        node.receive_a(LeaseGrant)  # so what was sent before it has been taken
        with coordinator.client() as client:
            [machine] = client.past_requests(for_s=3600.0)["machines"]
    assert (machine["node"], machine["phases"][-1]["phase"]) == ("alpha", "sharing")
    with closing(sqlite3.connect(coordinator.data_dir / "usage.db")) as connection, connection:
        row = (3600, 0, "alpha", 0, "GPU-1", "A100", b"")
        connection.execute("INSERT INTO gpu_rows VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # of some time ago
    with coordinator.connection(credential) as socket:
        node.socket = socket
        node.send(node.hello(incarnation="i2", facts=a_machine("sums")))
        node.receive()
        coordinator.end(signal.SIGKILL)
    assert kept(coordinator) == {"phases": 1, "gpu_rows": 1}
    coordinator.start()
    with coordinator.client() as client:
        assert client.past_requests(for_s=3600.0)["machines"] == []
    assert kept(coordinator) == {"phases": 0, "gpu_rows": 0}


def test_points_of_gpus_say_what_time_they_are_of(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client:
        empty = client.gpu_history(for_s=86_400.0, node="alpha")
        by_hours = client.gpu_history(for_s=86_400.0, node=None)
        with closing(sqlite3.connect(coordinator.data_dir / "usage.db")) as connection, connection:
            connection.execute("DROP TABLE gpu_rows")
            connection.execute("CREATE VIEW gpu_rows AS SELECT 1")
        with pytest.raises(ApiProblem) as refused:
            client.gpu_history(for_s=3600.0, node=None)
    assert (empty["point_s"], empty["gpus"], empty["left_out"]) == (60, [], False)
    assert by_hours["point_s"] == 3600
    assert datetime.fromisoformat(empty["since"]).tzinfo is not None
    assert (refused.value.status, refused.value.code) == (503, "no_history")
