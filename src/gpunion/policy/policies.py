"""Named bundles: one answer to every question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpunion.policy.checkpoint_timing.interval import CheckpointTiming, FixedInterval, Young
from gpunion.policy.checkpoint_timing.same_owner_alarm import BURSTS, Alarm
from gpunion.policy.destination import BestFit, Destination, RandomDestination
from gpunion.policy.homecoming import Homecoming, Never, WhenItPays
from gpunion.policy.learning import Answers, Learning
from gpunion.policy.ordering import EarliestDeadline, FairShare, Ordering, PriorityThenAge
from gpunion.policy.placement.pick import FastThenTight, Scoring, TightThenFast
from gpunion.policy.preemption import AtOnce, NobodyMakesRoom, Preemption
from gpunion.policy.reclaim import FlushWhatFits, NeverFlush, ReclaimPlan
from gpunion.policy.staging import PreStaging
from gpunion.policy.suspicion import MissedThenFenced, Suspicion
from gpunion.policy.windows.policy import WindowPolicy

# The answers of a bundle that chose none of its own, until something has been learned.
USUAL_SCORING: Scoring = FastThenTight()
USUAL_TIMING: CheckpointTiming = Young()
USUAL_DESTINATION: Destination = BestFit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    name: str
    ordering: Ordering = field(default_factory=PriorityThenAge)
    scoring: Scoring = USUAL_SCORING
    checkpointing: CheckpointTiming = USUAL_TIMING
    reclaim: ReclaimPlan = field(default_factory=FlushWhatFits)
    destination: Destination = USUAL_DESTINATION
    homecoming: Homecoming = field(default_factory=WhenItPays)
    suspicion: Suspicion = field(default_factory=MissedThenFenced)
    preemption: Preemption = field(default_factory=NobodyMakesRoom)
    alarm: Alarm = field(default_factory=Alarm)
    staging: PreStaging | None = None  # None: no state is brought ahead of its job
    takes_turns: bool = False  # guests of a wanted machine leave one after another, when they have a place
    evacuates: bool = (
        False  # before an end that was foretold, guests whose states would not fit it save ahead
    )
    high_gpus_a_user: int | None = None  # of class high, who has no quota for it; None: any number
    reserves_first: bool = False  # the first who finds no place is kept one; others pass if they end before
    windows: WindowPolicy | None = None  # None: atomizable jobs are jobs like others
    learning: Learning | None = None  # None: the usual answers stay the usual ones

    def informed(self, answers: Answers) -> Policies:
        """The same bundle with what the campus has learned in place of the usual answers; those that it was
        given stay."""
        return replace(
            self,
            scoring=answers.scoring if self.scoring is USUAL_SCORING else self.scoring,
            checkpointing=answers.timing if self.checkpointing is USUAL_TIMING else self.checkpointing,
            destination=answers.destination if self.destination is USUAL_DESTINATION else self.destination,
            staging=answers.staging if self.staging is None else self.staging,
        )


BASELINE = Policies(name="baseline")
FIXED = Policies(name="fixed", checkpointing=FixedInterval())
RANDOM_DESTINATION = Policies(name="random-destination", destination=RandomDestination())
REQUEUE = Policies(name="requeue", checkpointing=FixedInterval(), reclaim=NeverFlush(), homecoming=Never())

# What a coordinator runs with unless told otherwise.
LIVE = Policies(
    name="gpunion",
    ordering=FairShare(),
    preemption=AtOnce(),
    alarm=BURSTS,
    takes_turns=True,
    evacuates=True,
    windows=WindowPolicy(),
    learning=Learning(),
)

# What an operator may choose instead (docs/scheduling.md): the same but for one answer.
FAIR = replace(LIVE, name="fair")
PRIORITY = replace(LIVE, name="priority", ordering=PriorityThenAge())
DEADLINE = replace(LIVE, name="deadline", ordering=EarliestDeadline())
PACKING = replace(LIVE, name="packing", scoring=TightThenFast())
FOR_OPERATORS = (FAIR, PRIORITY, DEADLINE, PACKING)

BUNDLES = {
    bundle.name: bundle for bundle in (LIVE, *FOR_OPERATORS, BASELINE, FIXED, RANDOM_DESTINATION, REQUEUE)
}
