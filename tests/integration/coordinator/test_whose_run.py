"""A real coordinator and nodes that speak for runs of others: what they try comes to nothing, and what an
honest machine brings late is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant, OrderFrame, ReportFrame
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.reports import (
    CheckpointDurable,
    NodeReclaimed,
    NoticeGiven,
    Report,
    RunEnded,
    RunStarted,
)
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from gpunion.vault import manifests as manifest_format
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import Manifest, NotYours, OldEpoch, VaultFault
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.replicate import DeskReplicas
from gpunion.vault.vault import MirrorVault
from tests.builders.checkpoints import a_manifest, name_of, sealed
from tests.integration.coordinator.process import Coordinator, FakeNode, a_job
from tests.services import ANSWER_LIMIT_S

WEIGHTS = {"w": b"weights"}


@dataclass
class Machine:
    """A node that has been given a run of a job, and what it says of it."""

    node: FakeNode
    start: StartRun
    desk: HttpVaultDesk
    vault: MirrorVault
    said: int = 0

    def says(self, report: Report) -> None:
        """Until the coordinator has taken it."""
        self.said += 1
        self.node.send(ReportFrame(seq=self.said, ack=1, sent_s=0.0, report=report))
        self.node.send(Heartbeat(sent_s=1.0, ack=1))
        while self.node.receive_a(LeaseGrant).ack < self.said:
            self.node.send(Heartbeat(sent_s=1.0, ack=1))

    def starts(self, restored: str | None = None, step: int = 0) -> None:
        self.desk.begin(self.start.job_id, self.start.epoch)
        self.says(
            RunStarted(
                run_id=self.start.run_id,
                job_id=self.start.job_id,
                epoch=self.start.epoch,
                restored=None if restored is None else CheckpointId(restored),
                resumed_step=step,
                restore_s=0.1,
            )
        )

    def saves(self, name: str, step: int) -> Manifest:
        manifest = sealed(self.vault, WEIGHTS | {"step": str(step).encode()}, **self.of_run(name, step))
        self.says(
            CheckpointDurable(
                run_id=self.start.run_id,
                job_id=self.start.job_id,
                epoch=self.start.epoch,
                checkpoint_id=CheckpointId(manifest.checkpoint_id),
                step=step,
                progress=0.1,
                size_bytes=1,
                shipped_bytes=1,
                final=False,
            )
        )
        return manifest

    def ends(self, reason: EndReason) -> None:
        self.says(
            RunEnded(
                run_id=self.start.run_id,
                job_id=self.start.job_id,
                epoch=self.start.epoch,
                reason=reason,
                last_step=0,
                exit_code=0,
            )
        )

    def of_run(self, name: str, step: int) -> dict[str, object]:
        return {
            "checkpoint_id": f"{self.start.run_id}-{name}",
            "job_id": self.start.job_id,
            "epoch": self.start.epoch,
            "step": step,
        }


@dataclass
class Scene:
    coordinator: Coordinator
    client: Client
    tmp_path: Path

    @contextmanager
    def machine(self, name: str) -> Iterator[Machine]:
        with self.coordinator.node(name) as node:
            start = node.receive_a(OrderFrame).order
            assert isinstance(start, StartRun)
            desk = HttpVaultDesk(self.coordinator.url, node.credential)
            mirror = MirrorVault(desk, self.tmp_path / f"mirror-{name}", limit_bytes=2**20)
            yield Machine(node, start, desk, mirror)

    def sealed(self) -> list[str]:
        vault = DirectoryVault(self.coordinator.data_dir / "vault")
        [shelf] = vault.shelves()
        return [manifest.checkpoint_id for manifest in vault.manifests(shelf.root.name)]

    def epoch(self) -> int | None:
        [shelf] = DirectoryVault(self.coordinator.data_dir / "vault").shelves()
        return shelf.epoch()


@pytest.fixture
def scene(coordinator: Coordinator, tmp_path: Path) -> Iterator[Scene]:
    coordinator.start()
    with coordinator.client() as client:
        client.submit(a_job())
        yield Scene(coordinator, client, tmp_path)
        assert client.audit()["violations"] == []


@pytest.fixture
def moved(scene: Scene) -> Iterator[tuple[Machine, Machine]]:
    """The machine where the job ran first, and the one that runs it now."""
    with scene.machine("former") as former:
        former.starts()
        former.saves("c1", 10)
        former.says(NoticeGiven(deadline_s=60.0))
        former.ends(EndReason.SAVED)
        former.says(NodeReclaimed(freed_after_s=0.5))
        with scene.machine("living") as living:
            living.starts(f"{former.start.run_id}-c1", 10)
            yield former, living


def forged(job_id: str, checkpoint_id: str, epoch: int, step: int = 10**14) -> bytes:
    """Of blocks that are there: only whose it is says that it is none."""
    manifest = a_manifest(WEIGHTS, job_id=job_id, checkpoint_id=checkpoint_id, epoch=epoch, step=step)
    return manifest_format.encode(manifest)


def test_a_former_node_changes_nothing_of_the_run_that_came_after_its_own(
    scene: Scene, moved: tuple[Machine, Machine]
) -> None:
    former, living = moved
    living.saves("c1", 20)
    before, job, run = scene.sealed(), living.start.job_id, living.start.run_id
    tries: list[Callable[[HttpVaultDesk], object]] = [
        lambda desk: desk.seal(job, forged(job, f"{run}-c9", 2)),
        lambda desk: desk.seal(job, forged(job, f"{run}-output", 2)),
        lambda desk: desk.seal(job, forged(job, f"{run}-output", 1)),
        lambda desk: desk.seal(job, forged(job, f"{former.start.run_id}-c9", 1)),
        lambda desk: desk.begin(job, 1),
        lambda desk: desk.begin(job, 2),
        lambda desk: desk.begin(job, 3),
        lambda desk: desk.begin(job, 10**9),
        lambda desk: desk.begin_copy(job, 2),
        lambda desk: desk.begin_copy(job, 10**9),
        lambda desk: desk.adopt(job, forged(job, f"{run}-c9", 2)),
        lambda desk: desk.adopt(job, forged(job, f"{former.start.run_id}-c9", 1)),
        lambda desk: desk.forget(job, 2),
        lambda desk: desk.hold(job, f"{run}-c1"),
        lambda desk: desk.latest(job),
    ]
    for attempt in tries:
        with pytest.raises((NotYours, OldEpoch)):
            attempt(former.desk)
    assert (scene.sealed(), scene.epoch()) == (before, 2)
    shown = [manifest_format.decode(data).checkpoint_id for data in former.desk.sealed(job)]
    assert shown == [f"{former.start.run_id}-c1"]
    living.saves("c2", 30)
    sealed(living.vault, WEIGHTS, **living.of_run("output", 30))
    assert scene.sealed()[-1] == f"{run}-output"


@pytest.mark.parametrize("epoch", [10**10, 10**15, -1])
def test_an_epoch_or_a_step_that_the_vault_could_not_file_is_refused(scene: Scene, epoch: int) -> None:
    with scene.machine("alpha") as machine:
        job = machine.start.job_id
        machine.starts()
        with pytest.raises(VaultFault):
            machine.desk.begin(job, epoch)
        too_far = forged(job, f"{machine.start.run_id}-c1", 1).replace(b"100000000000000", b"9" * 16)
        with pytest.raises(VaultFault):
            machine.desk.seal(job, too_far)
        machine.saves("c1", 1)
        assert scene.epoch() == 1


def test_refusals_say_what_happened_and_what_to_do(scene: Scene, moved: tuple[Machine, Machine]) -> None:
    former, living = moved
    path = f"{scene.coordinator.url}/api/v1/vault/jobs/{living.start.job_id}/begin"
    bearer = {"Authorization": f"Bearer {former.node.credential}"}
    late, foreign = (
        httpx.post(path, json={"epoch": epoch}, headers=bearer, timeout=ANSWER_LIMIT_S) for epoch in (1, 2)
    )
    assert (late.status_code, late.json()["code"]) == (409, "old_epoch")
    assert (foreign.status_code, foreign.json()["code"]) == (403, "not_your_run")
    for answer in (late, foreign):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["next_step"]


def test_a_machine_under_the_name_of_one_that_left_has_nothing_of_it(
    scene: Scene, moved: tuple[Machine, Machine]
) -> None:
    _, living = moved
    scene.client.enrol(scene.client.make_join_token()["join_token"], "living", "lab-a")
    node_id, credential = scene.coordinator.enrol("living")
    assert node_id == "living-3"
    desk, job = HttpVaultDesk(scene.coordinator.url, credential), living.start.job_id
    tries: list[Callable[[], object]] = [
        lambda: desk.sealed(job),
        lambda: desk.begin(job, 2),
        lambda: desk.seal(job, forged(job, f"{living.start.run_id}-c9", 2)),
        lambda: desk.put("ab" * 32, b"anything"),
        lambda: desk.collect_garbage(),
    ]
    for attempt in tries:
        with pytest.raises(NotYours):
            attempt()
    with Client(scene.coordinator.url, credential) as agent, pytest.raises(ApiProblem) as refused:
        agent.push_log(living.start.run_id, 0, b"forged")
    assert refused.value.status == 403
    living.saves("c1", 20)


def test_a_last_save_and_an_output_that_come_after_the_end_are_kept(scene: Scene) -> None:
    with scene.machine("alpha") as machine:
        machine.starts()
        machine.saves("c1", 10)
        machine.ends(EndReason.OUTPUT_LOST)
        machine.says(NodeReclaimed(freed_after_s=0.5))
        sealed(machine.vault, WEIGHTS, **machine.of_run("a1", 20))
        sealed(machine.vault, WEIGHTS, **machine.of_run("output", 20))
        with Client(scene.coordinator.url, machine.node.credential) as agent:
            agent.push_log(machine.start.run_id, 0, b"the last words")
        names = [f"{machine.start.run_id}-{name}" for name in ("c1", "a1", "output")]
        assert scene.sealed() == names


def test_after_the_next_run_has_started_an_output_is_refused_in_words_and_the_end_of_the_log_is_taken(
    moved: tuple[Machine, Machine], scene: Scene
) -> None:
    former, _ = moved
    with pytest.raises(OldEpoch, match=r"epoch 1 of job-.*: a later run has begun"):
        sealed(former.vault, WEIGHTS, **former.of_run("output", 20))
    with Client(scene.coordinator.url, former.node.credential) as agent:
        agent.push_log(former.start.run_id, 0, b"late words")
    with scene.coordinator.client() as client:
        assert client.logs(former.start.job_id)["text"] == "late words"


def test_a_former_node_brings_copies_of_what_it_had_sealed_in_another_place_and_of_nothing_else(
    scene: Scene, tmp_path: Path
) -> None:
    folder = DirectoryVault(tmp_path / "folder")
    with scene.machine("former") as former:
        former.starts()
        former.saves("c1", 10)
        [first] = former.vault.manifests(former.start.job_id)
        for data in (b"weights", b"10"):
            folder.put(name_of(data), data)
        folder.begin(first.job_id, 1)
        folder.seal(first)
        elsewhere = sealed(folder, WEIGHTS, **former.of_run("c2", 20))
        former.says(
            CheckpointDurable(
                run_id=former.start.run_id,
                job_id=former.start.job_id,
                epoch=1,
                checkpoint_id=CheckpointId(elsewhere.checkpoint_id),
                step=20,
                progress=0.1,
                size_bytes=1,
                shipped_bytes=1,
                final=False,
            )
        )
        former.says(NoticeGiven(deadline_s=60.0))
        former.ends(EndReason.SAVED)
        former.says(NodeReclaimed(freed_after_s=0.5))
        with scene.machine("living") as living:
            living.starts(elsewhere.checkpoint_id, 20)
            sealed(folder, WEIGHTS, **former.of_run("c3", 30))  # of which nobody had heard by then
            sealed(folder, WEIGHTS, **living.of_run("c1", 40))  # another's to bring
            desks: dict[str, VaultDesk] = {"folder": DirectoryDesk(folder), "campus": former.desk}
            done = DeskReplicas(desks.__getitem__).complete(
                former.start.job_id, tuple(desks), pace=lambda sent_bytes: None, cancelled=lambda: False
            )
            assert done.troubles == {}
            assert done.copied == (elsewhere.checkpoint_id,)
            assert scene.sealed() == [first.checkpoint_id, elsewhere.checkpoint_id]


def test_what_the_campus_counts_on_outlives_whatever_its_present_node_seals_above_it(
    scene: Scene, moved: tuple[Machine, Machine]
) -> None:
    former, living = moved
    job, kept = living.start.job_id, f"{former.start.run_id}-c1"
    for number in range(4):
        sealed(living.vault, WEIGHTS, **living.of_run(f"c{number}", 10**6 + number))
    forgotten = living.desk.forget(job, 2)
    assert forgotten
    assert kept in scene.sealed()
    living.saves("c9", 10**7)
    assert kept in scene.sealed()
