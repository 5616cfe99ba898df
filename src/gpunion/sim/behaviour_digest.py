"""The digest of a run: every decision in order, whole. Two runs of one seed must agree on it to the bit."""

from __future__ import annotations

import hashlib

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.events import LeaseRenewed
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.observer import Watch


class DecisionLog(Watch):
    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.decisions = 0

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        self._add("coordinator", commit)

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        if isinstance(commit.event, LeaseRenewed):
            # Most of all commits, and all alike: their times say as much as their text.
            self._hash.update(f"{node_id} {commit.at_s!r}\n".encode())
        else:
            self._add(node_id, commit)

    def note(self, text: str) -> None:
        self._hash.update(text.encode())

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _add(self, who: str, commit: Commit | AgentCommit) -> None:
        self.decisions += 1
        self._hash.update(f"{who} {commit!r}\n".encode())
