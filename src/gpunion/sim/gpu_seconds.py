"""GPU-seconds of every machine: lent by its owner's word, used by processes, idle by looking at each GPU.

The three are added up from different facts, so that their sum is a test and not a definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpunion.domain.ids import NodeId
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.machine import Machine, Word
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box


@dataclass(slots=True)
class Account:
    lent_gpu_s: float = 0.0
    used_gpu_s: float = 0.0
    idle_gpu_s: float = 0.0
    since_s: float = 0.0
    lent: bool = True
    began_s: dict[str, float] = field(default_factory=dict)
    free_since_s: dict[int, float] = field(default_factory=dict)


class Ledger(Watch):
    def __init__(self, kernel: Kernel, machines: Mapping[NodeId, Machine]) -> None:
        self._kernel = kernel
        self._machines = machines
        self._accounts: dict[NodeId, Account] = {}
        for node_id, machine in machines.items():
            free = {gpu.index: 0.0 for gpu in machine.plan.facts.capacity.gpus}
            self._accounts[node_id] = Account(free_since_s=free)

    def accounts(self) -> dict[NodeId, Account]:
        for node_id, account in self._accounts.items():
            self._count_lent(node_id)
            self._count_idle(account)
            for run_id, began_s in account.began_s.items():
                box = self._machines[node_id].runtime.boxes.get(run_id)  # type: ignore[call-overload]
                gpus = 0 if box is None else len(box.order.grant.gpu_indices)
                account.used_gpu_s += (self._kernel.now_s - began_s) * gpus
                account.began_s[run_id] = self._kernel.now_s
        return self._accounts

    def guest_began(self, box: Box) -> None:
        account = self._accounts[box.node_id]
        account.began_s[box.run_id] = self._kernel.now_s
        for index in box.order.grant.gpu_indices:
            free_since_s = account.free_since_s.pop(index, None)
            if free_since_s is not None and account.lent:
                account.idle_gpu_s += self._kernel.now_s - free_since_s

    def guest_ended(self, box: Box) -> None:
        """One that was parked had nothing any more; who has its GPUs now counts them."""
        account = self._accounts[box.node_id]
        began_s = account.began_s.pop(box.run_id, None)
        if began_s is None:
            return
        account.used_gpu_s += (self._kernel.now_s - began_s) * len(box.order.grant.gpu_indices)
        for index in box.order.grant.gpu_indices:
            account.free_since_s[index] = self._kernel.now_s

    def guest_parked(self, box: Box) -> None:
        self.guest_ended(box)

    def guest_unparked(self, box: Box) -> None:
        self.guest_began(box)

    def owner_spoke(self, node_id: NodeId, word: str, deadline_true_s: float | None) -> None:
        self._turn(node_id)
        if deadline_true_s is not None:
            self._kernel.at(deadline_true_s, lambda: self._turn(node_id))

    def machine_changed(self, node_id: NodeId, what: str) -> None:
        self._turn(node_id)

    def _turn(self, node_id: NodeId) -> None:
        """The machine may be lent from here on, or not any more."""
        self._count_lent(node_id)
        account, machine = self._accounts[node_id], self._machines[node_id]
        self._count_idle(account)
        waiting = machine.deadline_s is not None and self._kernel.now_s < machine.deadline_s
        account.lent = machine.on and (machine.word in (Word.SHARING, Word.PAUSED) or waiting)

    def _count_lent(self, node_id: NodeId) -> None:
        account = self._accounts[node_id]
        if account.lent:
            gpus = len(self._machines[node_id].plan.facts.capacity.gpus)
            account.lent_gpu_s += (self._kernel.now_s - account.since_s) * gpus
        account.since_s = self._kernel.now_s

    def _count_idle(self, account: Account) -> None:
        for index, since_s in account.free_since_s.items():
            if account.lent:
                account.idle_gpu_s += self._kernel.now_s - since_s
            account.free_since_s[index] = self._kernel.now_s
