"""Records a simulated campus as a coordinator records a real one: what is told of it can then be judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpunion.coordinator.usage.answers import requests_answer, usage_answer
from gpunion.coordinator.usage.book import Remembered
from gpunion.coordinator.usage.meter import Meter
from gpunion.coordinator.usage.open_machines import OpenMachines
from gpunion.coordinator.usage.report import Asked
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.commit import Commit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.state import CampusState
from gpunion.lab.calm.world import CalmWorld
from gpunion.lab.replay.from_answers import recorded
from gpunion.lab.replay.recorded import Recorded
from gpunion.policy.policies import LIVE, Policies
from gpunion.ports.usage_history import HOUR_S, PhaseSince, UsageSum
from gpunion.sim.gpu_seconds import Ledger
from gpunion.sim.observer import Watch
from gpunion.sim.scenario.values import NodePlan, Scenario
from gpunion.wire.v1 import convert

TAKEN_EVERY_S = 300.0
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """What was told of it, and what the simulator counted itself."""

    usage: Json
    requests: Json
    past: Recorded
    true_used_gpu_s: float
    true_lent_gpu_s: float


def record(scenario: Scenario, *, figures: str, policies: Policies = LIVE) -> Month:
    """`figures`: what all owners say of theirs."""
    scenario = replace(scenario, nodes=tuple(_with_figures(node, figures) for node in scenario.nodes))
    world = CalmWorld(scenario, policies)
    ledger, history = Ledger(world.kernel, world.machines), _History(world)
    world.watch(ledger)
    world.watch(history)
    world.run()
    state = history.finish()
    asked = Asked(since_s=0.0, until_s=world.kernel.now_s)
    remembered = Remembered(began_s=0.0, sums=list(history.sums.values()), phases=history.phases)
    usage = usage_answer(state, asked, remembered).model_dump()
    requests = requests_answer(state, asked, remembered.phases).model_dump()
    accounts = ledger.accounts().values()
    return Month(
        usage=usage,
        requests=requests,
        past=recorded(requests, usage, _machines(scenario), counted_s=asked.until_s),
        true_used_gpu_s=sum(account.used_gpu_s for account in accounts),
        true_lent_gpu_s=sum(account.lent_gpu_s for account in accounts),
    )


class _History(Watch):
    """What the coordinator's book does, in simulated time."""

    def __init__(self, world: CalmWorld) -> None:
        self.sums: dict[tuple[int, str], UsageSum] = {}
        self.phases: list[PhaseSince] = []
        self._world = world
        self._meter, self._machines = Meter(), OpenMachines()
        self._meter.begin(0.0, CampusState())
        world.kernel.after(TAKEN_EVERY_S, self._take)

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        changed = {
            record.id if isinstance(record, Node) else record.node_id
            for record in commit.decision.changes
            if isinstance(record, Node | Run)
        }
        if changed:
            self._meter.changed(commit.at_s, station.engine.state, changed)
            self._machines.changed(commit.at_s, station.engine.state, changed)

    def finish(self) -> CampusState:
        self._settle()
        station = self._world.coordinator.station
        assert station is not None
        return station.engine.state

    def _take(self) -> None:
        self._settle()
        self._world.kernel.after(TAKEN_EVERY_S, self._take)

    def _settle(self) -> None:
        for one in self._meter.take(self._world.kernel.now_s):
            key = (one.at_s // HOUR_S * HOUR_S, one.lab)
            known = self.sums.get(key) or UsageSum(at_s=key[0], lab=one.lab)
            self.sums[key] = replace(
                known,
                lent_gpu_s=known.lent_gpu_s + one.lent_gpu_s,
                used_gpu_s=known.used_gpu_s + one.used_gpu_s,
                departures=known.departures + one.departures,
            )
        self.phases += self._machines.take()[0]


def _with_figures(node: NodePlan, figures: str) -> NodePlan:
    terms = replace(node.facts.terms, figures=figures)
    return replace(node, facts=replace(node.facts, terms=terms))


def _machines(scenario: Scenario) -> list[Json]:
    """As GET /nodes tells of them."""
    return [
        {
            "id": node.id,
            "lab": node.facts.lab,
            "phase": "sharing",
            "joined_at": convert.shown_time(0.0),
            "cpus": node.facts.capacity.cpus,
            "memory_bytes": node.facts.capacity.memory_bytes,
            "uplink_bps": node.facts.capacity.uplink_bps,
            "gpus": [
                {
                    "index": gpu.index,
                    "model": gpu.model,
                    "memory_bytes": gpu.memory_bytes,
                    "speed": gpu.speed,
                }
                for gpu in node.facts.capacity.gpus
            ],
            "terms": {"notice_s": node.facts.terms.notice_s},
        }
        for node in scenario.nodes
    ]
