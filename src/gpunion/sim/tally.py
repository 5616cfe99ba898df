"""How often each kind of trouble was injected: a run that met none has shown nothing."""

from __future__ import annotations

KINDS = (
    "message_loss",
    "message_duplication",
    "message_delay",
    "message_reorder",
    "connection_break",
    "partition",
    "coordinator_crash",
    "agent_crash",
    "node_crash",
    "clock_drift",
    "clock_jump",
    "slow_disk",
    "full_disk",
    "wiped_disk",
    "spoiled_save",
)


class Tally:
    def __init__(self) -> None:
        self.counts = dict.fromkeys(KINDS, 0)

    def count(self, kind: str) -> None:
        self.counts[kind] += 1
