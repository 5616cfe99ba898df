"""What checkers and measures get to see: the truth of the world, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.frames import AgentFrame, CoordinatorFrame
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.network.flows import Flow
from gpunion.sim.program.box import Box
from gpunion.sim.vault import Sealed


class Watch:
    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None: ...

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None: ...

    def owner_spoke(self, node_id: NodeId, word: str, deadline_true_s: float | None) -> None: ...

    def guest_prepared(self, box: Box) -> None: ...

    def guest_began(self, box: Box) -> None: ...

    def guest_ended(self, box: Box) -> None: ...

    def guest_parked(self, box: Box) -> None: ...

    def guest_unparked(self, box: Box) -> None: ...

    def vault_begun(self, job_id: JobId, epoch: int) -> None: ...

    def vault_sealed(self, sealed: Sealed) -> None: ...

    def shipping_began(self, box: Box, flow: Flow, name: str) -> None: ...

    def shipping_ended(self, box: Box, flow: Flow) -> None: ...

    def rates_changed(self) -> None: ...

    def sent_down(self, node_id: NodeId, frame: CoordinatorFrame) -> None: ...

    def sent_up(self, node_id: NodeId, frame: AgentFrame) -> None: ...

    def machine_changed(self, node_id: NodeId, what: str) -> None: ...


HOOKS = tuple(name for name in vars(Watch) if not name.startswith("_"))


class Watchers(Watch):
    """Several watches as one. A hook is passed on only to those that have it, since most have few."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[..., None]]] = {}

    def add(self, watch: Watch) -> None:
        for name in HOOKS:
            if getattr(type(watch), name) is not getattr(Watch, name):
                hooks = self._hooks.setdefault(name, [])
                hooks.append(getattr(watch, name))
                setattr(self, name, _in_turn(tuple(hooks)))


def _in_turn(hooks: tuple[Callable[..., None], ...]) -> Callable[..., None]:
    def tell(*args: Any) -> None:
        for hook in hooks:
            hook(*args)

    return hooks[0] if len(hooks) == 1 else tell
