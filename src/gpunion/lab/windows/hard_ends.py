"""Whether anything was held past a hard end, by what the agents had been told and when their guests ended."""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.guest import Guest
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.lab.evaluation.costs import Figures
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.world import World

# For the keeper's and the agent's timers to come up in the same instant.
INSTANT_S = 0.01


class HardEnds(Watch):
    def __init__(self, world: World) -> None:
        self._world = world
        self._told: dict[RunId, Subjob] = {}
        self._ends = 0
        self._late_s: list[float] = []
        world.watch(self)

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        for record in commit.decision.changes:
            if isinstance(record, Guest) and record.subjob is not None:
                self._told[record.run_id] = record.subjob

    def guest_ended(self, box: Box) -> None:
        subjob = self._told.pop(box.run_id, None)
        if subjob is None or not subjob.hard or subjob.ends_s is None:
            return
        self._ends += 1
        clock = self._world.machines[box.node_id].clock
        late_s = self._world.kernel.now_s - clock.true(subjob.ends_s)
        if late_s > INSTANT_S:
            self._late_s.append(late_s)

    def figures(self) -> Figures:
        now_s = self._world.kernel.now_s
        for machine in self._world.machines.values():
            for box in machine.runtime.living():
                subjob = self._told.get(box.run_id)
                if subjob is not None and subjob.hard and subjob.ends_s is not None:
                    late_s = now_s - machine.clock.true(subjob.ends_s)
                    if late_s > INSTANT_S:
                        self._late_s.append(late_s)
        return {
            "hard_ends": float(self._ends),
            "overruns": float(len(self._late_s)),
            "latest_s": max(self._late_s, default=0.0),
        }
