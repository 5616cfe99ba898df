"""The tunnels that machines have opened: one a machine, the newest counts."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Target


class Tunnels:
    def __init__(self) -> None:
        self._tunnels: dict[NodeId, Tunnel] = {}

    def take(self, node_id: NodeId, tunnel: Tunnel) -> None:
        former = self._tunnels.get(node_id)
        self._tunnels[node_id] = tunnel
        if former is not None:
            former.close("its machine opened a new tunnel")

    def lose(self, node_id: NodeId, tunnel: Tunnel) -> None:
        tunnel.close("the connection of its machine broke")
        if self._tunnels.get(node_id) is tunnel:
            del self._tunnels[node_id]

    async def open(self, node_id: NodeId, target: Target) -> tuple[Tunnel, Stream]:
        """StreamRefused says why there is none."""
        tunnel = self._tunnels.get(node_id)
        if tunnel is None:
            raise StreamRefused(StreamRefused.MOVING + f"{node_id} has no connection for it yet")
        return tunnel, await tunnel.open(target)
