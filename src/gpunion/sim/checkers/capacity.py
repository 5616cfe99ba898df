"""Invariants 5, 6 and 9: nothing is promised twice, moving stays under its cap, and the books balance."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.guest import Guest
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.effects import AskToSave
from gpunion.policy.bandwidth import RECLAIM_SHARE
from gpunion.sim.checkers.court import Checker, Court
from gpunion.sim.gpu_seconds import Ledger
from gpunion.sim.network.flows import Flow
from gpunion.sim.program.box import Box

ROUNDING = 1e-6


class NothingPromisedTwice(Checker):
    def guest_unparked(self, box: Box) -> None:
        """Its memory it had all the time."""
        self._look_at_gpus(box, list(self.world.machines[box.node_id].runtime.living()))

    def guest_began(self, box: Box) -> None:
        machine = self.world.machines[box.node_id]
        alive = list(machine.runtime.living())
        self._look_at_gpus(box, alive)
        capacity, allowed = machine.plan.facts.capacity, machine.plan.facts.terms.memory_bytes
        lent_bytes = capacity.memory_bytes if allowed is None else min(allowed, capacity.memory_bytes)
        held_bytes = sum(other.order.grant.memory_bytes for other in alive)
        if held_bytes > lent_bytes:
            what = f"guests hold {held_bytes} bytes of memory, {lent_bytes} are lent"
            self.court.find(5, box.node_id, what)

    def _look_at_gpus(self, box: Box, alive: list[Box]) -> None:
        """One that is parked has nothing on any."""
        for other in alive:
            shared = set(other.order.grant.gpu_indices) & set(box.order.grant.gpu_indices)
            if other is not box and shared and not other.parked:
                what = f"{box.run_id} and {other.run_id} are both on GPU {sorted(shared)}"
                self.court.find(5, box.node_id, what)


class MovingUnderItsCap(Checker):
    """Last saves that were ordered, on the wire: each under its own rate, all of a node under the share. What
    is saved when a window is over is in no hurry: it has the rate of a save in between."""

    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._final: set[str] = set()
        self._flows: dict[NodeId, list[Flow]] = {}

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        in_no_hurry = {
            record.saving.checkpoint_id
            for record in commit.decision.changes
            if isinstance(record, Guest) and record.saving and record.saving.saved_for is EndReason.WINDOW
        }
        for effect in commit.decision.effects:
            if isinstance(effect, AskToSave) and effect.final and effect.checkpoint_id not in in_no_hurry:
                self._final.add(effect.checkpoint_id)

    def shipping_began(self, box: Box, flow: Flow, name: str) -> None:
        if name in self._final and flow.cap_bps is not None:
            self._flows.setdefault(box.node_id, []).append(flow)

    def rates_changed(self) -> None:
        for node_id, flows in self._flows.items():
            moving = [flow for flow in flows if not flow.done]
            if not moving:
                continue
            self._flows[node_id] = moving
            for flow in moving:
                if flow.cap_bps is not None and flow.rate_bps > flow.cap_bps * (1 + ROUNDING):
                    self.court.find(
                        6, node_id, f"'{flow.name}' goes at {flow.rate_bps:.0f} of {flow.cap_bps:.0f}"
                    )
            cap_bps = RECLAIM_SHARE * self.world.machines[node_id].plan.facts.capacity.uplink_bps
            total_bps = sum(flow.rate_bps for flow in moving)
            if total_bps > cap_bps * (1 + ROUNDING):
                what = f"last saves use {total_bps:.0f} bit/s of the uplink, their share is {cap_bps:.0f}"
                self.court.find(6, node_id, what)


class BooksBalance(Checker):
    def __init__(self, court: Court, ledger: Ledger) -> None:
        super().__init__(court)
        self._ledger = ledger

    def at_the_end(self) -> None:
        for node_id, account in self._ledger.accounts().items():
            off_s = account.lent_gpu_s - account.used_gpu_s - account.idle_gpu_s
            if abs(off_s) > ROUNDING * max(1.0, account.lent_gpu_s):
                what = (
                    f"{account.lent_gpu_s:.3f} GPU-seconds lent, {account.used_gpu_s:.3f} used and "
                    f"{account.idle_gpu_s:.3f} idle"
                )
                self.court.find(9, node_id, what)
