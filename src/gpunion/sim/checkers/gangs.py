"""Invariants 11 and 12 on the ground: one gang goes on from one step, and never two epochs of it at once."""

from __future__ import annotations

from gpunion.domain.gang import leader_of
from gpunion.domain.ids import JobId
from gpunion.sim.box import Box
from gpunion.sim.checkers.court import Checker, Court


class OneStepForAGang(Checker):
    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._began: dict[tuple[JobId, int], int] = {}

    def guest_began(self, box: Box) -> None:
        seat = box.order.seat
        if seat is None:
            return
        leader = leader_of(box.job_id, seat)
        step = self._began.setdefault((leader, box.order.epoch), box.resumed_step)
        if box.resumed_step != step:
            what = f"{box.run_id} goes on from step {box.resumed_step}, another member from {step}"
            self.court.find(12, box.job_id, what)
        for machine in self.world.machines.values():
            for other in machine.runtime.living():
                same = other.order.seat is not None and leader_of(other.job_id, other.order.seat) == leader
                if same and other.order.epoch != box.order.epoch:
                    what = f"{box.run_id} begins while {other.run_id} is still there"
                    self.court.find(11, box.job_id, what)
