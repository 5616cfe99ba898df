"""The agents' connection: the handshake, orders and reports, and frames nobody can read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant, OrderFrame, Progress, ReportFrame, Welcome
from gpunion.domain.protocol.orders import StartRun, StopRun
from gpunion.domain.protocol.reports import RunEnded, RunStarted
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from gpunion.wire.agent_v1 import pack
from tests.integration.coordinator.process import (
    Coordinator,
    FakeNode,
    a_job,
    run_of,
)
from tests.services import ANSWER_LIMIT_S


@pytest.fixture
def fresh(coordinator: Coordinator) -> Coordinator:
    return coordinator.start()


def closed(socket: ClientConnection) -> tuple[int, str]:
    """The code and reason the connection is closed with; frames before it are read away."""
    try:
        while True:
            socket.recv(timeout=ANSWER_LIMIT_S)
    except ConnectionClosed as end:
        return (end.rcvd.code, end.rcvd.reason) if end.rcvd else (1006, "")


def started(start: StartRun, seq: int) -> ReportFrame:
    report = RunStarted(
        run_id=start.run_id,
        job_id=start.job_id,
        epoch=start.epoch,
        restored=None,
        resumed_step=0,
        restore_s=0.1,
    )
    return ReportFrame(seq=seq, ack=1, sent_s=0.0, report=report)


def ended(start: StartRun, seq: int, reason: EndReason, ack: int = 1) -> ReportFrame:
    report = RunEnded(
        run_id=start.run_id,
        job_id=start.job_id,
        epoch=start.epoch,
        reason=reason,
        last_step=9,
        exit_code=0,
    )
    return ReportFrame(seq=seq, ack=ack, sent_s=0.0, report=report)


def settle(node: FakeNode, ack: int = 1) -> LeaseGrant:
    """Until the coordinator has taken everything sent so far."""
    node.send(Heartbeat(sent_s=1.0, ack=ack))
    grant: LeaseGrant = node.receive_a(LeaseGrant)
    return grant


def test_a_job_goes_through_its_whole_life(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node() as node:
        answer = client.submit(a_job(environment={"SEED": "1"}))
        assert (answer["job"]["phase"], answer["job"]["node_id"]) == ("starting", "alpha")
        assert [reason["code"] for reason in answer["reasons"]] == ["submitted", "placed"]
        assert [(verdict["node"], verdict["fits"]) for verdict in answer["verdicts"]] == [("alpha", True)]
        job_id, run_id = answer["job"]["id"], run_of(answer["job"])

        order = node.receive_a(OrderFrame)
        assert (order.seq, order.order.run_id) == (1, run_id)
        assert order.order.environment == (("SEED", "1"),)
        node.send(started(order.order, 1))
        node.send(Heartbeat(sent_s=1.0, ack=1, progress=(Progress(run_id=run_id, step=5, progress=0.5),)))
        assert node.receive_a(LeaseGrant).ack == 1
        job = client.job(job_id)
        assert job["phase"] == "running"
        assert job["live"] == {"run_id": run_id, "step": 5, "progress": 0.5}
        assert [run["phase"] for run in job["runs"]] == ["running"]

        with Client(fresh.url, node.credential) as agent:
            assert agent.push_log(run_id, 0, b"hello ") == 6
            assert agent.push_log(run_id, 0, b"hello world") == 11
            assert agent.push_log(run_id, 50, b"later") == 11
        assert client.logs(job_id)["text"] == "hello world"

        node.send(ended(order.order, 2, EndReason.FINISHED))
        assert settle(node).ack == 2
        job = client.job(job_id)
        assert (job["phase"], job["exit_code"], job["live"]) == ("succeeded", 0, None)
        page = client.logs(job_id)
        assert (page["over"], page["lacking"]) == (False, "alpha")
        with Client(fresh.url, node.credential) as agent:
            assert agent.push_log(run_id, 12, b"", end=True) == 11
            assert not client.logs(job_id)["over"]
            assert agent.push_log(run_id, 11, b"!", end=True) == 12
        page = client.logs(job_id)
        assert (page["text"], page["over"], page["lacking"]) == ("hello world!", True, None)
        assert client.logs(job_id, offset=page["next_offset"])["text"] == ""
        codes = [line["code"] for line in client.why(job_id)["story"]]
        assert codes == ["submitted", "placed", "started", "finished"]
        assert client.audit()["violations"] == []


def test_a_report_that_comes_twice_counts_once(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node() as node:
        job = client.submit(a_job())["job"]
        order = node.receive_a(OrderFrame).order
        node.send(started(order, 1))
        node.send(started(order, 1))
        node.send(ended(order, 3, EndReason.FAILED))  # out of order: waits to be sent again
        assert settle(node).ack == 1
        assert client.job(job["id"])["phase"] == "running"


def test_a_user_stops_a_running_job(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node() as node:
        job = client.submit(a_job())["job"]
        order = node.receive_a(OrderFrame).order
        node.send(started(order, 1))
        settle(node)
        assert client.stop(job["id"])["job"]["phase"] == "stopping"
        assert isinstance(node.receive_a(OrderFrame).order, StopRun)
        node.send(ended(order, 2, EndReason.STOPPED, ack=2))
        settle(node, ack=2)
        assert client.job(job["id"])["phase"] == "cancelled"
        story = client.why(job["id"])["story"]
        with pytest.raises(ApiProblem) as caught:
            client.stop(job["id"])
        assert (caught.value.code, caught.value.status) == ("job_over", 409)
        assert client.why(job["id"])["story"] == story


def test_an_impossible_job_is_refused_with_what_each_node_lacks(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node():
        with pytest.raises(ApiProblem) as caught:
            client.submit(a_job(resources={"gpus": 8}))
        assert (caught.value.code, caught.value.status) == ("impossible", 422)
        assert "GET /api/v1/nodes" in caught.value.next_step
        (verdict,) = caught.value.verdicts
        assert (verdict["node"], verdict["fits"], verdict["code"]) == ("alpha", False, "too_few_gpus")
        assert verdict["sentence"] == "it has 1 GPU, 8 are needed"
        assert client.jobs()["jobs"] == []


def test_a_gpu_that_no_machine_has_is_refused_at_once_with_the_nearest(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node():
        accepted = client.submit(a_job(resources={"compute_capability": ">= 8.0"}))["job"]
        assert accepted["resources"]["compute_capability"] == ">=8.0"
        with pytest.raises(ApiProblem) as caught:
            client.submit(a_job(resources={"compute_capability": ">=9.0"}))
        assert (caught.value.code, caught.value.status) == ("impossible", 422)
        assert "the nearest is alpha: its GPUs (A100) have compute capability 8.0" in caught.value.detail
        with pytest.raises(ApiProblem) as caught:
            client.submit(a_job(resources={"compute_capability": "ampere"}))
        assert caught.value.status == 422
        assert "'ampere' has no number such as 8.0" in str(caught.value)


def test_a_waiting_job_says_what_each_node_answers(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node():
        client.submit(a_job())
        waiting = client.submit(a_job())["job"]
        assert waiting["phase"] == "pending"
        why = client.why(waiting["id"])
        assert [(v["node"], v["code"]) for v in why["verdicts"]] == [("alpha", "too_few_free_gpus")]


def test_orders_and_the_place_in_the_channel_survive_a_restart(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node() as node:
        job = client.submit(a_job())["job"]
        order = node.receive_a(OrderFrame)
        node.send(replace(started(order.order, 1), ack=0))  # the order itself is not acknowledged
        settle(node, ack=0)
        credential = node.credential
    fresh.stop()
    fresh.start()
    with fresh.client() as client, fresh.connection(credential) as socket:
        again = FakeNode("alpha", credential, socket)
        again.send(again.hello(guests=(run_of(job),)))
        welcome = again.receive_a(Welcome)
        assert welcome.term > order.term
        assert (welcome.ack, welcome.orders_before) == (1, 0)
        resent = again.receive_a(OrderFrame)
        assert (resent.seq, resent.term, resent.order) == (1, welcome.term, order.order)
        assert client.job(job["id"])["phase"] == "running"


def test_a_newer_connection_takes_over(fresh: Coordinator) -> None:
    with fresh.node() as old, fresh.connection(old.credential) as socket:
        new = FakeNode(old.node_id, old.credential, socket)
        new.send(new.hello())
        assert isinstance(new.receive(), Welcome)
        assert closed(old.socket)[0] == 4409
        settle(new, ack=0)
        with fresh.client() as client:
            assert client.node("alpha")["connected"]


def test_a_node_is_of_the_lab_it_enrolled_for(shared: Coordinator, client: Client) -> None:
    with shared.node("honest", lab="lab-h") as node:
        assert client.node(node.node_id)["lab"] == "lab-h"
        assert client.node(node.node_id)["fingerprint"]


BAD_FRAMES: dict[str, Any] = {
    "no JSON": b"\x00\xffgarbage",
    "text": "hello",
    "empty": b"",
    "another shape": b'{"a": 1}',
    "no body": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0}',
    "unknown type": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0, "body": {"type": "Nonsense"}}',
    "no frame": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0, "body": {"type": "NodePaused"}}',
    "deep": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0, "body": '
    + b'{"body":' * 5000
    + b"1"
    + b"}" * 5000
    + b"}",
    "extra": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0, "extra": 1, "body": {"type": "Heartbeat"}}',
    "wrong types": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0, '
    b'"body": {"type": "Heartbeat", "sent_s": "soon", "ack": 0}}',
    "infinite": b'{"v": 1, "seq": 0, "ack": 0, "epoch": 0, '
    b'"body": {"type": "Heartbeat", "sent_s": 1e999, "ack": 0}}',
    "numbers that differ": b'{"v": 1, "seq": 5, "ack": 0, "epoch": 0, '
    b'"body": {"type": "Heartbeat", "sent_s": 1.0, "ack": 0}}',
    "a report without its report": b'{"v": 1, "seq": 1, "ack": 0, "epoch": 0, '
    b'"body": {"type": "ReportFrame", "seq": 1, "ack": 0, "sent_s": 1.0, "report": {"type": "StopRun"}}}',
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_malformed_frame_closes_the_connection_with_a_reason(shared: Coordinator, name: str) -> None:
    with shared.node("mal") as node:
        node.socket.send(BAD_FRAMES[name])
        code, reason = closed(node.socket)
        assert code == 1008
        assert reason
    with shared.client() as client:
        assert client.audit()["violations"] == []


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_malformed_first_frame_is_refused_too(shared: Coordinator, name: str) -> None:
    _, credential = shared.enrol("first")
    with shared.connection(credential) as socket:
        socket.send(BAD_FRAMES[name])
        assert closed(socket)[0] == 1008


def test_an_oversized_frame_is_refused(shared: Coordinator) -> None:
    with shared.node("big") as node:
        node.socket.send(b" " * (1024**2 + 1))
        assert closed(node.socket)[0] == 1009


def test_another_version_is_told_so(shared: Coordinator) -> None:
    _, credential = shared.enrol("newer")
    with shared.connection(credential) as socket:
        node = FakeNode("newer", credential, socket)
        envelope = json.loads(pack(node.hello()))
        socket.send(json.dumps({**envelope, "v": 2}).encode())
        assert closed(socket) == (4426, "version 2 is not spoken here; use version 1")


def test_a_hello_for_another_node_is_refused(shared: Coordinator) -> None:
    node_id, credential = shared.enrol("mallory")
    with shared.connection(credential) as socket:
        node = FakeNode(node_id, credential, socket)
        node.send(node.hello(node_id=NodeId("somebody-else")))
        assert closed(socket)[0] == 4403


def test_the_first_frame_is_a_hello(shared: Coordinator) -> None:
    _, credential = shared.enrol("rude")
    with shared.connection(credential) as socket:
        socket.send(pack(Heartbeat(sent_s=1.0, ack=0)))
        assert closed(socket)[0] == 1008


def test_a_wrong_credential_does_not_get_a_connection(shared: Coordinator) -> None:
    url = shared.url.replace("http", "ws", 1) + "/api/v1/agent"
    for token, status in ((None, 401), ("wrong", 401), (shared.token, 403)):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        with (
            pytest.raises(InvalidStatus) as caught,
            connect(url, additional_headers=headers, proxy=None, open_timeout=ANSWER_LIMIT_S),
        ):
            pass
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body or b"{}")["next_step"]


def test_a_node_pushes_only_logs_of_its_own_runs(fresh: Coordinator) -> None:
    with fresh.client() as client, fresh.node() as node:
        job = client.submit(a_job())["job"]
        node.receive_a(OrderFrame)
        _, other = fresh.enrol("beta")
        with Client(fresh.url, other) as agent, pytest.raises(ApiProblem) as caught:
            agent.push_log(run_of(job), 0, b"lies")
        assert caught.value.code == "not_your_run"
        answer = httpx.post(
            f"{fresh.url}/api/v1/agent/runs/{run_of(job)}/log",
            params={"offset": "x"},
            headers={"Authorization": f"Bearer {node.credential}"},
            trust_env=False,
            timeout=ANSWER_LIMIT_S,
        )
        assert answer.json()["code"] == "invalid_request"
        assert JobId(job["id"]) in client.node("alpha")["gpus"][0]["run_id"]
