"""A sheet of paper for one decision of an agent: reads like the state, never touches it."""

from __future__ import annotations

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.guest import Guest, Holding, JobEpoch, OwnerState
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.nodes.withheld import HoldCause, WithheldGpu, earliest_deadline_s, withheld_of
from gpunion.domain.protocol.decision import AgentDecision, AgentRecord
from gpunion.domain.protocol.effects import (
    AgentEffect,
    CancelTimer,
    LimitGuest,
    RemoveGuest,
    SendReport,
    SetTimer,
    TellNotice,
)
from gpunion.domain.protocol.reports import Report
from gpunion.domain.protocol.timers import (
    AgentTimer,
    OneGuest,
    ParkedTooLong,
    SaveOverdue,
    ShipAgain,
    WindowEnds,
    of_notice,
)
from gpunion.domain.reasons.reason import Fact, Reason, Why, because
from gpunion.domain.timing import Timing
from gpunion.engine.agent.state import AgentState
from gpunion.engine.timers import Timers

# So many without an answer, and no plan is expected any more; fewer where there is no time for another look.
NEAR_HEARTBEATS = 2.5
LAST_LOOK_HEARTBEATS = 1.5


class AgentDraft:
    def __init__(
        self, state: AgentState, facts: NodeFacts, timing: Timing, timers: Timers[AgentTimer], now_s: float
    ) -> None:
        self.facts = facts
        self.timing = timing
        self.now_s = now_s
        self.guests = dict(state.guests)
        self._epochs = state.epochs  # of every job ever seen here: too many to copy for each decision
        self._new_epochs: dict[JobId, int] = {}
        self.holding = state.holding
        self.lease_until_s = state.lease_until_s
        self._cut_off = state.cut_off
        self._timers = timers
        self._changes: dict[object, AgentRecord] = {}
        self._forgotten: list[RunId] = []
        self._effects: list[AgentEffect] = []
        self._reasons: list[Reason] = []

    def put(self, guest: Guest) -> Guest:
        self.guests[guest.run_id] = guest
        self._changes[guest.run_id] = guest
        return guest

    def epoch_of(self, job_id: JobId) -> int:
        """The highest seen of it."""
        return self._new_epochs.get(job_id) or self._epochs.get(job_id, 0)

    def saw_epoch(self, job_id: JobId, epoch: int) -> None:
        if epoch > self.epoch_of(job_id):
            self._new_epochs[job_id] = epoch
            self.note(job_id, JobEpoch(job_id=job_id, epoch=epoch))

    def forget(self, run_id: RunId) -> None:
        del self.guests[run_id]
        self._changes.pop(run_id, None)
        self._forgotten.append(run_id)

    def farewell(self, run_id: RunId) -> None:
        """Its story on this machine is over; its scratch goes with it."""
        self.cancel_timer(SaveOverdue(run_id=run_id))
        self.cancel_timer(ShipAgain(run_id=run_id))
        self.cancel_timer(ParkedTooLong(run_id=run_id))
        self.cancel_timer(WindowEnds(run_id=run_id))
        self.cancel_stay_timers(run_id)
        self.do(RemoveGuest(run_id=run_id))
        self.forget(run_id)

    def cancel_stay_timers(self, run_id: RunId) -> None:
        for timer in of_notice(OneGuest(run_id=run_id)):
            self.cancel_timer(timer)

    def hold(self, holding: Holding) -> None:
        self.holding = holding
        self._changes[Holding] = holding

    def note(self, key: object, record: AgentRecord) -> None:
        self._changes[key] = record

    def do(self, *effects: AgentEffect) -> None:
        self._effects.extend(effects)

    def report(self, report: Report) -> None:
        self._effects.append(SendReport(report=report))

    def set_timer(self, timer: AgentTimer, at_s: float) -> None:
        self._effects.append(SetTimer(timer=timer, at_s=at_s))

    def cancel_timer(self, timer: AgentTimer) -> None:
        if timer in self._timers or any(isinstance(e, SetTimer) and e.timer == timer for e in self._effects):
            self._effects.append(CancelTimer(timer=timer))

    def timer_set(self, timer: AgentTimer) -> bool:
        return timer in self._timers

    def because(self, subject: str, why: Why, **facts: Fact) -> str:
        reason = because(subject, why, **facts)
        self._reasons.append(reason)
        return reason.sentence()

    def living(self) -> list[Guest]:
        return sorted((g for g in self.guests.values() if g.living), key=lambda g: g.run_id)

    def limit(self, run_id: RunId) -> None:
        """The lease and the owner's deadline, handed to the keeper, which needs nobody to enforce them.

        An agent that was restarted and not yet welcomed has no lease to give; the keeper keeps the one it
        has.
        """
        guest = self.guests[run_id]
        ends = (self.deadline_for(guest), guest.hard_end_s)
        kill_at_s = min((at_s for at_s in ends if at_s is not None), default=None)
        self.do(LimitGuest(run_id=run_id, lease_until_s=self.last_moment_s(), kill_at_s=kill_at_s))

    def withheld(self, index: int) -> WithheldGpu | None:
        return withheld_of(self.holding.gpus, index)

    def deadline_for(self, guest: Guest) -> float | None:
        """When a guest has to be gone: with the whole machine, from one of its GPUs, or by the terms."""
        of_machine_s = self.holding.deadline_s if self.holding.owner_state is OwnerState.RECLAIMING else None
        on_gpus = () if guest.parked else guest.grant.gpu_indices
        of_gpus_s = earliest_deadline_s(self.holding.gpus, on_gpus)
        wanted = (of_machine_s, of_gpus_s, guest.leave_by_s)
        return min((at_s for at_s in wanted if at_s is not None), default=None)

    def notice_for(self, guest: Guest) -> TellNotice:
        """What the guest is told: until when, and why where it is not simply its owner's wish."""
        deadline_s, holding = self.deadline_for(guest), self.holding
        if deadline_s is None:
            return TellNotice(run_id=guest.run_id, deadline_s=None)
        if deadline_s == guest.leave_by_s:
            reason = guest.leave_why
        elif holding.owner_state is OwnerState.RECLAIMING and deadline_s == holding.deadline_s:
            reason = holding.detail
        else:
            gpus = (self.withheld(index) for index in guest.grant.gpu_indices)
            terms = [gpu for gpu in gpus if gpu is not None and gpu.cause is HoldCause.TERMS]
            reason = next((gpu.because() for gpu in terms if gpu.deadline_s == deadline_s), "")
        return TellNotice(run_id=guest.run_id, deadline_s=deadline_s, reason=reason)

    def owner_has_it(self) -> bool:
        """From the owner's deadline on nothing of a guest may run or send."""
        holding = self.holding
        if holding.owner_state is OwnerState.RECLAIMING:
            return holding.deadline_s is not None and self.now_s >= holding.deadline_s
        return holding.owner_state in (OwnerState.RECLAIMED, OwnerState.LEFT)

    def sickness_of(self, guest: Guest) -> str:
        gpus = (self.withheld(index) for index in guest.grant.gpu_indices)
        sick = [gpu for gpu in gpus if gpu is not None and gpu.cause is HoldCause.SICK]
        return "; ".join(f"GPU {gpu.index}: {gpu.detail}" for gpu in sick)

    def last_moment_s(self) -> float | None:
        """When guests end if the coordinator is never heard again."""
        if self.lease_until_s is None:
            return None
        return self.lease_until_s + self.facts.terms.autonomy_s + self.timing.grace_s

    def coordinator_is_near(self, heartbeats: float = NEAR_HEARTBEATS) -> bool:
        """Whether a plan can be expected: the lease was renewed within the last heartbeats."""
        if self.lease_until_s is None or self._cut_off:
            return False
        renewed_s = self.lease_until_s - self.timing.lease_s
        return self.now_s - renewed_s <= heartbeats * self.timing.heartbeat_s

    def may_wait_for_a_plan(self, deadline_s: float) -> bool:
        """Whether guests that have to be gone by then can be left to the coordinator until the next look. At
        the last one before they are told to end, one heartbeat without an answer is one too many."""
        again_s = self.now_s + self.timing.own_save_patience_s
        last = again_s >= deadline_s - TERM_BEFORE_DEADLINE_S
        return self.coordinator_is_near(LAST_LOOK_HEARTBEATS if last else NEAR_HEARTBEATS)

    def decision(self) -> AgentDecision:
        return AgentDecision(
            changes=tuple(self._changes.values()),
            forgotten=tuple(self._forgotten),
            effects=tuple(self._effects),
            reasons=tuple(self._reasons),
        )
