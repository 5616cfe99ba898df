"""Who is compared: each a bundle of policies, with what of the modelled world goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpunion.lab.evaluation import baselines
from gpunion.lab.forecasts.stationary import StationaryHazard
from gpunion.lab.reference.departures import Manner
from gpunion.lab.reference.scenario import Campus
from gpunion.policy.checkpoint_timing.hazard_aware import NOTICE_CREDIT, HazardAware
from gpunion.policy.checkpoint_timing.interval import CheckpointTiming, Young
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.checkpoint_timing.same_owner_alarm import BURSTS, Alarm
from gpunion.policy.destination import BestFit, Destination, RandomDestination
from gpunion.policy.expected_loss import ExpectedLoss
from gpunion.policy.hazard.weekly import WeeklyHazard
from gpunion.policy.homecoming import Never
from gpunion.policy.placement.pick import FastThenTight
from gpunion.policy.policies import Policies
from gpunion.policy.reclaim import FlushWhatFits, NeverFlush
from gpunion.policy.staging import PreStaging

# Bamboo's forward pass is computed twice, a third of a step's work; most of it hides in the bubbles of the
# pipeline. A tenth is counted as lost, and the report says at which share it would break even.
REDUNDANT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`incremental`: only what changed since the last checkpoint is sent."""

    name: str
    label: str
    policies: Callable[[Campus], Policies]
    incremental: bool = True
    redundant_share: float = 0.0
    data_ports: bool = False  # every machine lets others fetch from it, and follow its last saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanisms:
    """What ours is made of, each to be switched off in turn."""

    hazard: bool = True
    notice: bool = True
    coupled: bool = True
    credit: float = NOTICE_CREDIT  # how far notice makes intervals longer too, not only losses smaller
    destination: str = "expected-loss"
    homecoming: bool = True
    turns: bool = True
    alarm: bool = True
    staging: bool = True

    def policies(self, campus: Campus) -> Policies:
        hazard = WeeklyHazard(book=campus.book) if self.hazard else StationaryHazard(book=campus.book)
        notices = notices_of(campus)
        timing: CheckpointTiming = HazardAware(
            hazard=hazard,
            notices=notices,
            counts_notice=self.notice,
            notice_credit=self.credit,
            coupled=self.coupled,
        )
        destinations: dict[str, Destination] = {
            "expected-loss": ExpectedLoss(hazard=hazard, notices=notices, timing=timing),
            "best-fit": BestFit(),
            "random": RandomDestination(),
        }
        here = destinations["expected-loss"]
        assert isinstance(here, ExpectedLoss)
        ours = Policies(
            name="ours",
            scoring=here if self.destination == "expected-loss" else FastThenTight(),
            checkpointing=timing,
            reclaim=FlushWhatFits() if self.notice else NeverFlush(),
            destination=destinations[self.destination],
            alarm=BURSTS if self.alarm else Alarm(),
            staging=PreStaging(loss=here) if self.staging else None,
            takes_turns=self.turns and self.notice,
        )
        return ours if self.homecoming else replace(ours, homecoming=Never())


def notices_of(campus: Campus) -> NoticeBook:
    """What owners' manners were before the first simulated second."""
    past = sorted((d for of_node in campus.past.values() for d in of_node), key=lambda d: d.at_s)
    book = NoticeBook()
    for departure in past:
        if departure.manner is Manner.NOTICE:
            book = book.announced(departure.notice_s)
        else:
            book = book.came_unannounced()
    return book


def _fixed(policies: Policies) -> Callable[[Campus], Policies]:
    return lambda campus: policies


def _young(campus: Campus) -> Policies:
    """Young's optimum is given the true mean rate of every node, as far as its past shows it."""
    timing = Young(hazard=StationaryHazard(book=campus.book))
    return replace(baselines.SLURM_YOUNG, checkpointing=timing)


OURS = Contender(name="ours", label="ours", policies=Mechanisms().policies)
SLURM_YOUNG = Contender(
    name="slurm-young",
    label="Slurm requeue, Young's interval",
    policies=_young,
    incremental=False,
)
SLURM_FIXED = Contender(
    name="slurm-30min",
    label="Slurm requeue, 30 min",
    policies=_fixed(baselines.SLURM_FIXED),
    incremental=False,
)
FIXED_AND_NOTICE = Contender(
    name="fixed-notice",
    label="30 min and flush in the notice",
    policies=_fixed(baselines.FIXED_AND_NOTICE),
    incremental=False,
)
REDUNDANT = Contender(
    name="redundancy",
    label="pipeline redundancy (Bamboo-like)",
    policies=_fixed(baselines.REDUNDANT),
    redundant_share=REDUNDANT_SHARE,
)

MAIN = (
    SLURM_FIXED,
    SLURM_YOUNG,
    Contender(
        name="htcondor",
        label="HTCondor-like vacate, 30 min",
        policies=_fixed(baselines.HTCONDOR),
        incremental=False,
    ),
    FIXED_AND_NOTICE,
    Contender(
        name="published",
        label="GPUnion as published",
        policies=_fixed(baselines.PUBLISHED),
        incremental=False,
    ),
    REDUNDANT,
    Contender(name="uncoupled", label="ours without coupling", policies=Mechanisms(coupled=False).policies),
    Contender(name="thrifty", label="ours, notice counted in full", policies=Mechanisms(credit=1.0).policies),
    Contender(name="lavish", label="ours, notice not counted", policies=Mechanisms(credit=0.0).policies),
    Contender(
        name="random", label="ours, random destination", policies=Mechanisms(destination="random").policies
    ),
    Contender(
        name="data-ports",
        label="ours, last saves followed from machine to machine",
        policies=Mechanisms().policies,
        data_ports=True,
    ),
    Contender(
        name="no-staging", label="ours, nothing brought ahead", policies=Mechanisms(staging=False).policies
    ),
    OURS,
)

ABLATION = tuple(
    Contender(
        name=f"{'hazard' if hazard else 'stationary'}-{'notice' if notice else 'blind'}-"
        f"{'incremental' if incremental else 'full'}",
        label=f"{'hazard-aware' if hazard else 'stationary'}, {'notice' if notice else 'no notice'}, "
        f"{'incremental' if incremental else 'full'}",
        policies=Mechanisms(hazard=hazard, notice=notice).policies,
        incremental=incremental,
    )
    for hazard in (False, True)
    for notice in (False, True)
    for incremental in (False, True)
)
# Each of the rest off in turn; hazard, notice and increments are in the table above.
OFF_IN_TURN = (
    Contender(
        name="no-destination",
        label="ours, best-fit destination",
        policies=Mechanisms(destination="best-fit").policies,
    ),
    Contender(
        name="no-turns", label="ours, everybody leaves at once", policies=Mechanisms(turns=False).policies
    ),
    Contender(
        name="no-alarm", label="ours, owners taken one by one", policies=Mechanisms(alarm=False).policies
    ),
    Contender(name="no-homecoming", label="ours, never home", policies=Mechanisms(homecoming=False).policies),
)
IN_SWEEPS = (SLURM_YOUNG, OURS)

ALL: Mapping[str, Contender] = {
    contender.name: contender for contender in (*MAIN, *ABLATION, *OFF_IN_TURN, *IN_SWEEPS)
}
