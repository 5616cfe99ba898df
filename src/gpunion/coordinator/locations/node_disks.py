"""Places that lie on disks of the campus's own machines: who keeps them, and how the others get in."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.passes import admission, key_of_place
from gpunion.ports.database import Marks
from gpunion.vault.locations import Place, PlaceKind

# Beside the marks of folders, which begin with /.
SECRET = "keepers"
COORDINATOR = "coordinator"


class Keepers:
    def __init__(
        self,
        store: Marks,
        *,
        nodes: Callable[[], Mapping[NodeId, Node]],
        now_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._now_s = now_s
        self._secret = ""

    async def load(self) -> None:
        self._secret = (await self._store.place_marks()).get(SECRET, "")
        if not self._secret:
            self._secret = secrets.token_hex(32)
            await self._store.put_place_mark(SECRET, self._secret)

    def shown(self, place: Place) -> Place:
        """As anybody may see it."""
        node = self._node(place)
        keeping = None if node is None else node.facts.keeping
        if keeping is None:
            return place
        return replace(place, endpoint=keeping.endpoint, certificate=keeping.certificate)

    def told(self, place: Place, bearer: str = COORDINATOR) -> Place:
        """As the bearer is told, who alone can use it; its keeper learns whom to let in."""
        if place.kind is not PlaceKind.NODE:
            return place
        key = key_of_place(self._secret, place.name, place.node)
        return replace(
            self.shown(place),
            admission=admission(key, bearer, self._now_s()),
            key=key if bearer == place.node else "",
        )

    def troubles(self, places: Iterable[Place]) -> dict[str, str]:
        """Why it is of no use now, in words for people."""
        found = {place.name: self._trouble(place) for place in places if place.kind is PlaceKind.NODE}
        return {name: trouble for name, trouble in found.items() if trouble}

    def _trouble(self, place: Place) -> str:
        node = self._node(place)
        if node is None:
            return f"no machine called {place.node} has joined. Next: gpunion nodes lists those there are"
        if node.phase is NodePhase.LEFT:
            return (
                f"{place.node} has left the campus. Next: where it has joined anew, write its new id "
                f"as the node of {place.name} into the coordinator's settings"
            )
        if node.facts.keeping is None:
            return (
                f"the owner of {place.node} lends no disk for checkpoints. Next: ask them to write [keeps] "
                "into its agent.toml and to start the agent again; where it is written there, gpunion "
                "status on that machine says what is wrong"
            )
        if node.phase is NodePhase.SILENT:
            return f"nothing is heard of {place.node}"
        if place.name not in node.facts.places:
            return (
                f"{place.node} cannot use the disk that it lends, has no room left there, or has just begun "
                "to lend it. Next: gpunion status on that machine says what is wrong"
            )
        return ""

    def _node(self, place: Place) -> Node | None:
        return self._nodes().get(NodeId(place.node)) if place.kind is PlaceKind.NODE else None
