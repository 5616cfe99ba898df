"""What the operator says of a node, and what is concluded about one from what it said or caused."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    """The operator wants it off the list: it has left, or will not be heard of again."""

    node_id: NodeId
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMisled:
    """So many of its messages were refused lately that nothing of it is believed for now."""

    node_id: NodeId
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccepted:
    """The operator has looked after an isolated node."""

    node_id: NodeId
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningFailed:
    """Placing the jobs raised. `node_id` or `job_id`: without this one it does not."""

    because: str
    node_id: NodeId | None = None
    job_id: JobId | None = None


TrustEvent = NodeRemoved | NodeMisled | NodeAccepted | PlanningFailed
