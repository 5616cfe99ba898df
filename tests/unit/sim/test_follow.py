"""A last save is followed by the machine its job goes to: no faster than it is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.protocol.effects import FetchState
from gpunion.domain.protocol.events import StateFetched
from gpunion.domain.protocol.orders import StageState
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.shelf import Shelf
from gpunion.sim.machine.staging import Stagings
from gpunion.sim.network.flows import Flow
from gpunion.sim.network.topology import Topology
from gpunion.sim.scenario.values import NetworkPlan, NodePlan
from gpunion.sim.vault import ModelVault, Sealed
from tests.builders import facts

JOB = JobId("job")
SIZE = 1_000_000_000  # eight seconds of a gigabit
ORDER = StageState(
    run_id=RunId("job-e1"), job_id=JOB, epoch=1, checkpoint_id=CheckpointId("c1"), rate_bps=0.0, follow=True
)


class Scene:
    def __init__(self) -> None:
        self.kernel, self.vault, self.shelf = Kernel(), ModelVault(), Shelf()
        nodes = tuple(
            NodePlan(id=NodeId(name), facts=facts(), downlink_bps=1e9) for name in ("alpha", "beta")
        )
        self.topology = Topology(self.kernel, nodes, NetworkPlan())
        self.told: list[StateFetched] = []
        self.stagings = Stagings(
            NodeId("beta"),
            shelf=self.shelf,
            vault=self.vault,
            topology=self.topology,
            tell=self.told.append,
        )
        self.seals(1, added=SIZE)

    def seals(self, step: int, *, added: int) -> Sealed:
        sealed = Sealed(
            checkpoint_id=CheckpointId(f"c{step}"),
            job_id=JOB,
            epoch=1,
            step=step,
            size_bytes=SIZE,
            added_bytes=added,
        )
        self.vault.seal(sealed)
        newest = self.vault.latest(JOB)
        assert newest is not None
        return newest

    def sends(self, then: Callable[[], None] = lambda: None) -> Flow:
        links = self.topology.to_vault(NodeId("alpha"))
        flow = self.topology.network.start("ship", links, SIZE, then)
        self.vault.arrives(JOB, flow)
        return flow


def test_who_rewrites_all_of_its_state_finds_all_of_it_when_its_save_has_been_sent() -> None:
    scene = Scene()
    scene.stagings.perform(FetchState(order=replace(ORDER, base=False)))
    scene.kernel.run(1.0)
    scene.sends()
    scene.kernel.run(60.0)
    assert scene.stagings.found(scene.seals(2, added=SIZE)) == SIZE


def test_a_save_that_is_half_sent_is_at_most_half_there() -> None:
    scene = Scene()
    save = scene.sends()
    scene.stagings.perform(FetchState(order=replace(ORDER, base=False)))
    scene.kernel.run(4.0)
    found = scene.stagings.found(scene.seals(2, added=SIZE))
    assert 0 < found <= save.moved_bytes < SIZE


def test_a_machine_its_owner_takes_back_stops_following() -> None:
    scene = Scene()
    scene.stagings.perform(FetchState(order=ORDER))
    scene.kernel.run(30.0)
    scene.stagings.stop()
    scene.sends()
    scene.kernel.run(60.0)
    assert scene.vault.followers == {}
    assert scene.shelf.fetched_bytes == SIZE  # the base, and nothing of the save
