"""Named bundles: one answer to every question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpunion.policy.checkpointing import CheckpointTiming, FixedInterval, Young
from gpunion.policy.destination import BestFit, Destination, RandomDestination
from gpunion.policy.homecoming import Homecoming, Never, WhenItPays
from gpunion.policy.learning import Answers, Learning
from gpunion.policy.ordering import FairShare, Ordering, PriorityThenAge
from gpunion.policy.placement.pick import FastThenTight, Scoring
from gpunion.policy.preemption import ByLastCheckpoint, NobodyMakesRoom, Preemption
from gpunion.policy.reclaim import FlushWhatFits, NeverFlush, ReclaimPlan
from gpunion.policy.scheduling.alarm import BURSTS, Alarm
from gpunion.policy.staging import PreStaging
from gpunion.policy.suspicion import MissedThenFenced, Suspicion


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    name: str
    ordering: Ordering = field(default_factory=PriorityThenAge)
    scoring: Scoring = field(default_factory=FastThenTight)
    checkpointing: CheckpointTiming = field(default_factory=Young)
    reclaim: ReclaimPlan = field(default_factory=FlushWhatFits)
    destination: Destination = field(default_factory=BestFit)
    homecoming: Homecoming = field(default_factory=WhenItPays)
    suspicion: Suspicion = field(default_factory=MissedThenFenced)
    preemption: Preemption = field(default_factory=NobodyMakesRoom)
    alarm: Alarm = field(default_factory=Alarm)
    staging: PreStaging | None = None  # None: no state is brought ahead of its job
    takes_turns: bool = False  # guests of a wanted machine leave one after another, when they have a place
    evacuates: bool = (
        False  # before an end that was foretold, guests whose states would not fit it save ahead
    )
    learning: Learning | None = None  # None: the answers above are final

    def informed(self, answers: Answers) -> Policies:
        """The same bundle, its answers made from what the campus has learned."""
        return replace(
            self,
            scoring=answers.scoring,
            checkpointing=answers.timing,
            destination=answers.destination,
            staging=answers.staging,
        )


BASELINE = Policies(name="baseline")
FIXED = Policies(name="fixed", checkpointing=FixedInterval())
RANDOM_DESTINATION = Policies(name="random-destination", destination=RandomDestination())
REQUEUE = Policies(name="requeue", checkpointing=FixedInterval(), reclaim=NeverFlush(), homecoming=Never())

# What a coordinator runs with unless told otherwise.
LIVE = Policies(
    name="gpunion",
    ordering=FairShare(),
    preemption=ByLastCheckpoint(),
    alarm=BURSTS,
    takes_turns=True,
    evacuates=True,
    learning=Learning(),
)

BUNDLES = {bundle.name: bundle for bundle in (LIVE, BASELINE, FIXED, RANDOM_DESTINATION, REQUEUE)}
