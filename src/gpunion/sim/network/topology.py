"""The campus's links: node to building, building to core, core to the vault; and what others send on them."""

from __future__ import annotations

import math
import random

from gpunion.domain.ids import NodeId
from gpunion.sim.kernel import Kernel
from gpunion.sim.network.flows import Network
from gpunion.sim.scenario.values import DAY_S, NetworkPlan, NodePlan

CORE = "core"
VAULT = "vault"


class Topology:
    def __init__(self, kernel: Kernel, nodes: tuple[NodePlan, ...], plan: NetworkPlan) -> None:
        capacity_bps = {CORE: plan.core_bps, VAULT: plan.vault_bps}
        self._building = {node.id: f"building:{node.facts.building or node.facts.lab}" for node in nodes}
        for node in nodes:
            capacity_bps[f"up:{node.id}"] = node.facts.capacity.uplink_bps
            capacity_bps[f"down:{node.id}"] = node.downlink_bps
            capacity_bps[self._building[node.id]] = plan.building_bps
        self._to_vault = {node.id: (f"up:{node.id}", self._building[node.id], CORE, VAULT) for node in nodes}
        self.network = Network(kernel, capacity_bps)
        self._kernel = kernel
        self._plan = plan

    def to_vault(self, node_id: NodeId) -> tuple[str, ...]:
        return self._to_vault[node_id]

    def from_vault(self, node_id: NodeId) -> tuple[str, ...]:
        return (VAULT, CORE, self._building[node_id], f"down:{node_id}")

    def node_links(self, node_id: NodeId) -> tuple[str, ...]:
        return (f"up:{node_id}", f"down:{node_id}")

    def start_background(self, stream: random.Random) -> None:
        if self._plan.background_mean <= 0.0:
            return
        for link in sorted({*self._building.values(), CORE}):
            self._shift(link, stream)

    def _shift(self, link: str, stream: random.Random) -> None:
        """A day's wave (least at four in the morning) times a draw."""
        phase = 2 * math.pi * (self._kernel.now_s % DAY_S) / DAY_S
        wave = 1.0 - 0.6 * math.cos(phase - 2 * math.pi * 4 / 24)
        self.network.set_background(
            link, min(0.9, self._plan.background_mean * wave * stream.uniform(0.3, 1.7))
        )
        self._kernel.after(
            self._plan.background_every_s * stream.uniform(0.5, 1.5), lambda: self._shift(link, stream)
        )
