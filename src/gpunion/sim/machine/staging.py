"""Fetches states ahead of their jobs on a modelled machine, and hands out what lies there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.protocol.effects import DropState, FetchState
from gpunion.domain.protocol.events import StateFetched
from gpunion.domain.protocol.orders import StageState
from gpunion.sim.machine.shelf import Shelf
from gpunion.sim.network.flows import Flow
from gpunion.sim.network.topology import Topology
from gpunion.sim.vault import ModelVault, Sealed


@dataclass(slots=True)
class _Fetching:
    sealed: Sealed
    found_bytes: float
    flow: Flow


class Stagings:
    """Those of one life of one agent; what arrived before it ended stays on the shelf."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        shelf: Shelf,
        vault: ModelVault,
        topology: Topology,
        tell: Callable[[StateFetched], None],
    ) -> None:
        self._node_id = node_id
        self._shelf = shelf
        self._vault = vault
        self._topology = topology
        self._tell = tell
        self._fetching: dict[JobId, _Fetching] = {}
        self._waiting: set[JobId] = set()  # for a save to follow
        self._following: dict[JobId, tuple[Flow, Flow]] = {}  # ours, and the save it follows

    def perform(self, effect: FetchState | DropState) -> None:
        match effect:
            case FetchState(order=order):
                self._fetch(order)
            case DropState(job_id=job_id):
                self._break_off(job_id)
                self._shelf.drop(job_id)

    def found(self, sealed: Sealed) -> float:
        """Its job is here: what lies ready of this checkpoint, and nothing more is fetched ahead."""
        self._break_off(sealed.job_id)
        return self._shelf.take(sealed)

    def stop(self) -> None:
        for job_id in (*self._fetching, *self._following, *sorted(self._waiting)):
            self._break_off(job_id)

    def _fetch(self, order: StageState) -> None:
        """The newest there is: it may be newer than what was asked for."""
        self._break_off(order.job_id)
        sealed = self._vault.latest(order.job_id)
        if sealed is None:
            return
        found_bytes = self._shelf.found(sealed)
        flow = self._from_vault(
            f"stage {order.job_id}",
            sealed.size_bytes - found_bytes if order.base else 0.0,
            lambda: self._arrived(order),
            order.rate_bps,
        )
        self._fetching[order.job_id] = _Fetching(sealed, found_bytes, flow)

    def _arrived(self, order: StageState) -> None:
        done = self._fetching.pop(order.job_id)
        self._shelf.put(done.sealed, done.flow.moved_bytes, done.found_bytes)
        if order.follow:
            self._waiting.add(order.job_id)
            self._vault.follow(order.job_id, lambda save: self._follow(order, save))
            return
        self._tell(
            StateFetched(
                job_id=order.job_id,
                epoch=order.epoch,
                checkpoint_id=order.checkpoint_id,
                fetched_bytes=int(done.flow.moved_bytes),
            )
        )

    def _follow(self, order: StageState, save: Flow) -> None:
        """On the heels of a save: never faster than that one is sent."""
        self._waiting.discard(order.job_id)

        def followed() -> None:
            del self._following[order.job_id]
            self._shelf.put_ahead(order.job_id, flow.moved_bytes)

        flow = self._from_vault(f"follow {order.job_id}", save.size_bytes, followed, save.cap_bps or 0.0)
        self._following[order.job_id] = (flow, save)

    def _from_vault(self, name: str, size_bytes: float, then: Callable[[], None], rate_bps: float) -> Flow:
        links = self._topology.from_vault(self._node_id)
        return self._topology.network.start(name, links, size_bytes, then, cap_bps=rate_bps or None)

    def _break_off(self, job_id: JobId) -> None:
        if job_id in self._waiting:
            self._waiting.discard(job_id)
            self._vault.followers.pop(job_id, None)
        broken = self._fetching.pop(job_id, None)
        if broken is not None:
            self._topology.network.cancel(broken.flow)
            self._shelf.put(broken.sealed, broken.flow.moved_bytes, broken.found_bytes)
        following = self._following.pop(job_id, None)
        if following is not None:
            flow, save = following
            self._topology.network.cancel(flow)
            self._shelf.put_ahead(job_id, min(flow.moved_bytes, save.moved_bytes))
