"""Which connection is a node's: the newest one. Knows nothing of sockets; a route owns those."""

from __future__ import annotations

import asyncio

from gpunion.domain.ids import NodeId


class Line:
    """One agent's connection."""

    def __init__(self, node_id: NodeId) -> None:
        self.node_id = node_id
        self.wake = asyncio.Event()  # something may be there to send
        self.replaced = False


class Switchboard:
    def __init__(self) -> None:
        self._lines: dict[NodeId, Line] = {}

    def take(self, line: Line) -> None:
        """This is the node's line now; the one before hears that it is not."""
        before = self._lines.get(line.node_id)
        self._lines[line.node_id] = line
        if before is not None and before is not line:
            before.replaced = True
            before.wake.set()

    def drop(self, line: Line) -> bool:
        """Whether the node is without a line now."""
        if self._lines.get(line.node_id) is not line:
            return False
        del self._lines[line.node_id]
        return True

    def is_current(self, line: Line) -> bool:
        return self._lines.get(line.node_id) is line

    @property
    def lines(self) -> int:
        """How many nodes have one."""
        return len(self._lines)

    def connected(self, node_id: NodeId) -> bool:
        return node_id in self._lines

    def wake(self, node_id: NodeId) -> None:
        line = self._lines.get(node_id)
        if line is not None:
            line.wake.set()
