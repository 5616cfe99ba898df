"""What was lent and used, asked of a real coordinator."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime

import pytest

from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.frames import OrderFrame
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
