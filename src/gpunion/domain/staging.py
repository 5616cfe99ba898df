"""Copies of a job's state that lie on nodes it may go to. Never durable: the vault alone is that."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import CheckpointId, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCopy:
    node_id: NodeId
    checkpoint_id: CheckpointId  # which one was asked for
    asked_s: float
    asked_bytes: int  # what that was to move
    there: bool = False  # its node has said that it lies there
    behind_bytes: int = 0  # what has been saved since: at most so much of it is another state's
