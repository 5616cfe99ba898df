"""A node whose messages cannot be trusted, or cannot be handled: set apart until the operator accepts it.

It gets no guests and no leases. Those it has end by the lease they had; what its agent says of their ends is
heard, and without a word they are given up as those of a silent node are. Its owner's word counts as before.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.trust import NodeAccepted
from gpunion.domain.protocol.aside import BECAUSE_CHARS
from gpunion.domain.protocol.timers import FenceOver, SilentTooLong
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft


def isolate(draft: Draft, node_id: NodeId, because: str) -> None:
    node = draft.state.nodes.get(node_id)
    if node is None or node.isolated_because:
        return
    because = because[:BECAUSE_CHARS]
    draft.put(replace(node, isolated_because=because))
    draft.because(node.id, Why.NODE_ISOLATED, node=node.id, because=because)
    fence_s = draft.policies.suspicion.given_up_after_s(draft.timing, node.facts.terms)
    for run_id in sorted(draft.state.living.get(node.id, ())):
        run = draft.state.runs[run_id]
        given_up = SilentTooLong(run_id=run.id)
        if draft.timer_set(given_up) or draft.timer_set(FenceOver(run_id=run.id)):
            continue
        draft.set_timer(given_up, draft.now_s + fence_s)
        draft.because(run.job_id, Why.ISOLATED_THERE, node=node.id, because=because, fence_s=fence_s)


def accepted(draft: Draft, event: NodeAccepted) -> None:
    """What still lives there goes on with the next lease, as where a silent node is heard again."""
    node = draft.state.nodes.get(event.node_id)
    if node is None:
        draft.because(event.node_id, Why.UNKNOWN_NODE)
        return
    if not node.isolated_because:
        return
    draft.put(replace(node, isolated_because=""))
    draft.because(node.id, Why.NODE_ACCEPTED, by=event.by)
    if node.phase is not NodePhase.SILENT:
        for run_id in sorted(draft.state.living.get(node.id, ())):
            draft.cancel_timer(SilentTooLong(run_id=run_id))
