"""Invariants 1 and 2: the owner wins. Judged by the owner's own word and clock, not by the agent's."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.events import OwnerReclaimed
from gpunion.sim.checkers.court import Checker
from gpunion.sim.machine.machine import Word
from gpunion.sim.network.flows import Flow
from gpunion.sim.program.box import Box

# Time for the keeper's and the agent's timers to come up in the same instant.
INSTANT_S = 0.01


class NothingAfterTheDeadline(Checker):
    def owner_spoke(self, node_id: NodeId, word: str, deadline_true_s: float | None) -> None:
        if deadline_true_s is not None:
            self.world.kernel.at(deadline_true_s + INSTANT_S, lambda: self._look(node_id, deadline_true_s))

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        if isinstance(commit.event, OwnerReclaimed) and commit.event.gpus:
            clock = self.world.machines[node_id].clock
            at_s = clock.true(commit.at_s + max(0.0, commit.event.notice_s)) + INSTANT_S
            self.world.kernel.at(at_s, lambda: self._look_at_gpus(node_id))

    def _look_at_gpus(self, node_id: NodeId) -> None:
        """A guest that is parked has nothing on the GPU: it may stand still in memory."""
        machine = self.world.machines[node_id]
        over = {gpu for gpu, by_s in machine.gpus_taken.items() if by_s + INSTANT_S <= self.court.now_s}
        for box in machine.runtime.living():
            if not box.parked and over & set(box.order.grant.gpu_indices):
                self.court.find(1, node_id, f"{box.run_id} computes on a GPU after its owner's deadline")

    def guest_began(self, box: Box) -> None:
        if self._too_late(box.node_id):
            self.court.find(1, box.node_id, f"{box.run_id} began after the owner's deadline")

    def shipping_began(self, box: Box, flow: Flow, name: str) -> None:
        if self._too_late(box.node_id):
            self.court.find(1, box.node_id, f"{box.run_id} began to send {name} after the owner's deadline")

    def _look(self, node_id: NodeId, deadline_s: float) -> None:
        machine = self.world.machines[node_id]
        if machine.deadline_s != deadline_s:
            return  # the owner changed their mind, or asked for it earlier
        for box in machine.runtime.living():
            self.court.find(1, node_id, f"{box.run_id} lives after the owner's deadline")
        links = set(self.world.topology.node_links(node_id))
        for flow in self.world.topology.network.flows:
            if links & set(flow.links):
                self.court.find(1, node_id, f"'{flow.name}' is on the wire after the owner's deadline")

    def _too_late(self, node_id: NodeId) -> bool:
        deadline_s = self.world.machines[node_id].deadline_s
        return deadline_s is not None and self.court.now_s > deadline_s + INSTANT_S


class NoStartAgainstTheTerms(Checker):
    def guest_prepared(self, box: Box) -> None:
        machine = self.world.machines[box.node_id]
        facts, terms = machine.plan.facts, machine.plan.facts.terms
        if machine.word is not Word.SHARING:
            self.court.find(2, box.node_id, f"{box.run_id} starts though the owner said {machine.word}")
        taken = set(machine.gpus_taken) & set(box.order.grant.gpu_indices)
        if taken:
            self.court.find(2, box.node_id, f"{box.run_id} starts on GPU {sorted(taken)}, which is not lent")
        lab = next(job.spec.lab for job in self.world.scenario.jobs if job.id == box.job_id)
        if not terms.admits_lab(lab):
            self.court.find(2, box.node_id, f"{box.run_id} of lab '{lab}' is not admitted")
        if not (facts.sandboxed or terms.allow_unsandboxed):
            self.court.find(2, box.node_id, f"{box.run_id} starts unsandboxed")
        guests = sum(1 for other in machine.runtime.living()) + 1
        if guests > terms.max_guests:
            self.court.find(2, box.node_id, f"{guests} guests where {terms.max_guests} are allowed")
