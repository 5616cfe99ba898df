"""What others do, as bundles of the same engine: a comparison in which only the decisions differ.

Each is given our restart path, our vault and our asynchronous capture, so that it is better here than at
home where that matters; what is left is when it saves, whether a notice helps, and where it goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Gpu
from gpunion.domain.ties import tie_break
from gpunion.policy.bandwidth import periodic_rate_bps, reclaim_cap_bps
from gpunion.policy.checkpoint_timing.interval import FixedInterval, Young
from gpunion.policy.destination import RandomDestination
from gpunion.policy.homecoming import Never
from gpunion.policy.policies import Policies
from gpunion.policy.reclaim import AtStake, NeverFlush, Triage
from gpunion.text import counted

HALF_HOUR_S = 1800.0
# Nobody saves by the clock where state lives on in a neighbour's memory; this is as good as never.
REDUNDANT_EVERY_S = 6 * 3600.0


class RoundRobin:
    """GPUnion as published takes turns: the node with the fewest guests, ties by lot."""

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        lot = tie_break("round robin", job.id, job.epoch, view.node.id) % 2**32 / 2**32
        return lot - view.guests

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str:
        return f"its turn ({counted(view.guests, 'guest')} there)"


class Vacate:
    """HTCondor's way: whoever is there saves at once and sends what it can; nobody asks whether it fits."""

    def triage(self, guests: Iterable[AtStake], *, left_s: float, uplink_bps: float) -> list[Triage]:
        everybody = sorted(guests, key=lambda guest: guest.run_id)
        cap_bps = reclaim_cap_bps(uplink_bps)
        share_bps = periodic_rate_bps(uplink_bps, len(everybody))
        return [
            Triage(
                run_id=guest.run_id,
                rate_bps=share_bps,
                needs_s=guest.stall_s + 8.0 * guest.ship_bytes / cap_bps,
            )
            for guest in everybody
        ]


# Slurm's preempt and requeue: the job saves at its own pace and starts again from that; a notice is unused.
SLURM_FIXED = Policies(
    name="slurm-requeue-30min",
    checkpointing=FixedInterval(every_s=HALF_HOUR_S),
    reclaim=NeverFlush(),
    homecoming=Never(),
)
SLURM_YOUNG = Policies(
    name="slurm-requeue-young", checkpointing=Young(), reclaim=NeverFlush(), homecoming=Never()
)
# HTCondor's vacate: the machine itself tells the job to save before it goes; nobody plans rates or places.
HTCONDOR = Policies(
    name="htcondor-vacate",
    checkpointing=FixedInterval(every_s=HALF_HOUR_S),
    reclaim=Vacate(),
    homecoming=Never(),
)
FIXED_AND_NOTICE = Policies(
    name="fixed-30min-and-notice", checkpointing=FixedInterval(every_s=HALF_HOUR_S), homecoming=Never()
)
# HotNets '25: round robin, programs save themselves on a fixed interval, three missed heartbeats.
PUBLISHED = Policies(
    name="gpunion-as-published",
    scoring=RoundRobin(),
    checkpointing=FixedInterval(every_s=HALF_HOUR_S),
    destination=RandomDestination(),
)
# Bamboo-like: a neighbour computes every stage a second time, so nothing is redone and everything costs more.
REDUNDANT = Policies(
    name="pipeline-redundancy",
    checkpointing=FixedInterval(every_s=REDUNDANT_EVERY_S),
    reclaim=NeverFlush(),
    homecoming=Never(),
)
