"""What a run came to, in two digests: what happened in its world, and what its engines decided.

Neither sees a name of our code. The world's reads what owners, guests, vault and network did, with the times,
and no event, record or order but for the GPUs that were granted. The core's reads commits as
`engine/behaviour` tells them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.engine import behaviour
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.network.flows import Flow
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.vault import Sealed
from gpunion.sim.world import World

DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """`world_lines` and `core_lines` are what the digests are of; kept where a difference is to be shown."""

    world: str
    core: str
    world_lines: tuple[str, ...] = ()
    core_lines: tuple[str, ...] = ()


class BehaviourWatch(Watch):
    def __init__(self, world: World) -> None:
        self._kernel = world.kernel
        self._world: list[str] = []
        self._core: list[str] = []

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        self._core.append(f"coordinator {behaviour.line(commit)}")

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        self._core.append(f"{node_id} {behaviour.line(commit)}")

    def owner_spoke(self, node_id: NodeId, word: str, deadline_true_s: float | None) -> None:
        self._happened("owner", node_id, deadline_true_s)

    def guest_began(self, box: Box) -> None:
        self._happened("began", box.node_id, box.run_id, box.step, sorted(box.order.grant.gpu_indices))

    def guest_ended(self, box: Box) -> None:
        self._happened("ended", box.node_id, box.run_id, box.step, box.exit_code)

    def vault_begun(self, job_id: JobId, epoch: int) -> None:
        self._happened("fence", job_id, epoch)

    def vault_sealed(self, sealed: Sealed) -> None:
        self._happened(
            "durable", sealed.job_id, sealed.epoch, sealed.step, sealed.size_bytes, sealed.added_bytes
        )

    def shipping_began(self, box: Box, flow: Flow, name: str) -> None:
        self._happened("send", box.run_id, flow.size_bytes)

    def shipping_ended(self, box: Box, flow: Flow) -> None:
        self._happened("sent", box.run_id, flow.moved_bytes)

    def behaviour(self, *, jobs: int, moves: int, troubles: Mapping[str, int], keep_lines: bool) -> Behaviour:
        """A kind of trouble that did not occur is not told: kinds may be added."""
        met = sorted((kind, number) for kind, number in troubles.items() if number)
        self._happened("over", jobs, moves, met)
        return Behaviour(
            world=digest(self._world),
            core=digest(self._core),
            world_lines=tuple(self._world) if keep_lines else (),
            core_lines=tuple(self._core) if keep_lines else (),
        )

    def _happened(self, what: str, *told: object) -> None:
        shown = " ".join(one.hex() if isinstance(one, float) else str(one) for one in told)
        self._world.append(f"{self._kernel.now_s.hex()} {what} {shown}")


def digest(lines: list[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=DIGEST_BYTES).hexdigest()
