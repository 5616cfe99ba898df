"""One machine lies. The coordinator stays, others' jobs run on, and the liar is shown and set apart."""

from __future__ import annotations

from typing import Any

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant, OrderFrame, Progress, ReportFrame, Welcome
from gpunion.domain.protocol.reports import CheckpointFailed, Report, RunEnded, RunStarted
from gpunion.engine.coordinator.message_checks import REFUSED_MOST
from gpunion.sdk.client import Client
from tests.integration.coordinator.process import Coordinator, FakeNode, a_job, run_of


def runs(client: Client, node: FakeNode, name: str) -> dict[str, Any]:
    """A job on the only machine that has room for it."""
    job = client.submit(a_job(name=name, resources={"gpus": 1}))["job"]
    order = node.receive_a(OrderFrame).order
    assert order.job_id == job["id"]
    of: dict[str, Any] = {"run_id": order.run_id, "job_id": order.job_id, "epoch": order.epoch}
    say(node, 1, RunStarted(**of, restored=None, resumed_step=0, restore_s=0.1))
    return client.job(job["id"])


def say(node: FakeNode, seq: int, report: Report) -> None:
    node.send(ReportFrame(seq=seq, ack=1, sent_s=0.0, report=report))


def heartbeat(node: FakeNode, *progress: Progress) -> LeaseGrant:
    node.send(Heartbeat(sent_s=1.0, ack=1, progress=progress))
    grant = node.receive_a(LeaseGrant)
    assert isinstance(grant, LeaseGrant)
    return grant


def test_reports_that_ended_the_coordinator_for_good_change_nothing_and_do_not_come_back(
    coordinator: Coordinator,
) -> None:
    fresh = coordinator.start()
    with fresh.client() as client, fresh.node("victim") as victim:
        job = runs(client, victim, "theirs")
        with fresh.node("liar") as liar:
            own = runs(client, liar, "own")
            of: dict[str, Any] = {"run_id": run_of(own), "job_id": JobId(job["id"]), "epoch": 1}
            lies: list[Report] = [
                *(RunEnded(**of, reason=reason, last_step=1) for reason in EndReason),
                *(
                    CheckpointFailed(
                        run_id=RunId("no-such-run"),
                        job_id=JobId(job["id"]),
                        epoch=1,
                        checkpoint_id=CheckpointId("no-such-run-c1"),
                        trouble=trouble,
                    )
                    for trouble in (CheckpointTrouble.NO_GUEST, CheckpointTrouble.NOT_SAVED)
                ),
            ]
            for seq, lie in enumerate(lies, start=2):
                say(liar, seq, lie)
            assert heartbeat(liar).ack == 1 + len(lies)
            assert client.job(job["id"])["phase"] == "running"
        assert coordinator.process is not None
        assert coordinator.process.poll() is None
    coordinator.stop()
    fresh = coordinator.start()
    with fresh.client() as client:
        assert client.job(job["id"])["phase"] == "running"
        assert client.job(own["id"])["phase"] == "running"


def test_a_liar_is_isolated_over_a_restart_until_it_is_accepted(coordinator: Coordinator) -> None:
    fresh = coordinator.start()
    lie = Progress(run_id=RunId("nobody"), step=999_999, progress=1.0)
    node_id, credential = fresh.enrol("liar")
    with fresh.connection(credential) as socket, fresh.client() as client:
        liar = FakeNode(node_id, credential, socket)
        liar.send(liar.hello())
        assert liar.receive_a(Welcome).leased
        grants = [heartbeat(liar, lie).lease_s for _ in range(REFUSED_MOST + 1)]
        assert grants[-1] == 0.0
        because = client.node("liar")["isolated_because"]
        assert because.startswith(f"{REFUSED_MOST} of its messages were refused within 60 s")
    coordinator.stop()
    fresh = coordinator.start()
    with fresh.connection(credential) as socket, fresh.client() as client:
        liar = FakeNode(node_id, credential, socket)
        liar.send(liar.hello())
        assert not liar.receive_a(Welcome).leased
        assert client.node("liar")["isolated_because"] == because
        job = client.submit(a_job(resources={"gpus": 1}))["job"]
        assert client.job(job["id"])["phase"] == "pending"
        [verdict] = client.why(job["id"])["verdicts"]
        assert "gpunion nodes accept liar" in str(verdict)
        assert client.accept_node("liar")["isolated_because"] == ""
        assert liar.receive_a(OrderFrame).order.job_id == job["id"]
        assert heartbeat(liar).lease_s > 0.0
