"""Owners: they come by the calendar, by chance or as written down, and have their machine back."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from gpunion.domain.nodes.signs import Sign, in_order
from gpunion.domain.nodes.terms import DEFAULT_WHEN_SAFE_S
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.machine import Machine
from gpunion.sim.scenario.values import DAY_S, WEEK_S, OwnerAct, OwnerPlan, RandomOwner, SignHabit

# An owner whose command got no answer tries again after this, and when the notice they had in mind is over
# takes the kill path, which needs no agent.
RETRY_S = 2.0
# After these words the machine is not lent.
VISITS = ("reclaim", "when_safe", "kill", "leave")


class Owner:
    """Says one thing after another: what could not be said yet keeps its place in the line."""

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        plan: OwnerPlan,
        stream: random.Random,
        habit: random.Random,
    ) -> None:
        """`habit`: a stream of its own, so that owners do the same whether or not they can be seen."""
        self._kernel = kernel
        self._machine = machine
        self._plan = plan
        self._stream = stream
        self._habit = habit
        self._shown: list[Sign] = []
        self._line: deque[OwnerAct] = deque()
        self._patience_ends_s: float | None = None

    def start(self, until_s: float) -> None:
        acts = [*self._plan.acts, *calendar_acts(self._plan, until_s)]
        if self._plan.random is not None:
            acts.extend(random_acts(self._plan.random, self._stream, until_s))
        for act in sorted(acts, key=lambda act: act.at_s):
            self._kernel.at(act.at_s, lambda act=act: self._wants(act))  # type: ignore[misc]
        if self._plan.signs is not None:
            self._machine.agent.shows(())
            for seen in sights(self._plan.signs, acts, self._habit, until_s):
                self._kernel.at(seen.from_s, lambda seen=seen: self._show(seen.sign))  # type: ignore[misc]
                self._kernel.at(seen.to_s, lambda seen=seen: self._hide(seen.sign))  # type: ignore[misc]

    def _show(self, sign: Sign) -> None:
        self._shown.append(sign)
        self._machine.agent.shows(in_order(frozenset(self._shown)))

    def _hide(self, sign: Sign) -> None:
        self._shown.remove(sign)
        self._machine.agent.shows(in_order(frozenset(self._shown)))

    def _wants(self, act: OwnerAct) -> None:
        self._line.append(act)
        if len(self._line) == 1:
            self._say()

    def _say(self) -> None:
        while self._line:
            if not self._said(self._line[0]):
                again_s = self._kernel.now_s + RETRY_S
                if self._patience_ends_s is not None and self._patience_ends_s > self._kernel.now_s:
                    again_s = min(again_s, self._patience_ends_s)
                self._kernel.at(again_s, self._say)
                return
            self._line.popleft()
            self._patience_ends_s = None

    def _said(self, act: OwnerAct) -> bool:
        machine = self._machine
        if act.gpu is not None:
            return self._said_of_gpu(act, act.gpu)
        if act.do in ("reclaim", "leave"):
            notice_s = machine.plan.facts.terms.notice_s if act.notice_s is None else act.notice_s
            return self._reclaimed(notice_s, leaving=act.do == "leave")
        if act.do == "when_safe":
            limit_s = DEFAULT_WHEN_SAFE_S if act.notice_s is None else act.notice_s
            return self._reclaimed(limit_s, leaving=False, when_safe=True)
        if act.do == "kill":
            return machine.kill()
        if act.do == "rejoin":
            return machine.rejoin()
        if act.do == "foretell":
            return machine.foretell(act.notice_s)
        if act.do == "pause":
            return machine.pause()
        return machine.resume()

    def _said_of_gpu(self, act: OwnerAct, gpu: int) -> bool:
        """Without an agent to hear it the owner asks again: one GPU has no way around the agent."""
        if act.do == "resume":
            return self._machine.resume(gpus=(gpu,))
        notice_s = self._machine.plan.facts.terms.notice_s if act.notice_s is None else act.notice_s
        return self._machine.reclaim(notice_s, gpus=(gpu,))

    def _reclaimed(self, notice_s: float, *, leaving: bool, when_safe: bool = False) -> bool:
        machine, now_s = self._machine, self._kernel.now_s
        if self._patience_ends_s is None:
            self._patience_ends_s = machine.clock.true(machine.clock.local(now_s) + notice_s)
        elif now_s >= self._patience_ends_s:
            return machine.kill()
        if machine.reclaim(notice_s, leaving=leaving, when_safe=when_safe):
            return True
        return now_s >= self._patience_ends_s and machine.kill()


@dataclass(frozen=True, slots=True)
class Sight:
    """A time in which a sign is shown."""

    from_s: float
    to_s: float
    sign: Sign


def sights(habit: SignHabit, acts: list[OwnerAct], stream: random.Random, until_s: float) -> list[Sight]:
    """Ahead of visits, up to their very moment; and at any time, by chance."""
    found = []
    visits = sorted(act.at_s for act in acts if act.do in VISITS and act.gpu is None)
    for visit_s in visits:
        ahead_s, sign = stream.expovariate(1.0 / habit.ahead_s), stream.choice(tuple(Sign))
        if stream.random() < habit.before_visits:
            found.append(Sight(max(0.0, visit_s - ahead_s), visit_s, sign))
    at_s, per_s = 0.0, habit.idle_per_day / DAY_S
    while per_s and (at_s := at_s + stream.expovariate(per_s)) < until_s:
        to_s = at_s + stream.expovariate(1.0 / habit.idle_s)
        found.append(Sight(at_s, to_s, stream.choice(tuple(Sign))))
    return found


def calendar_acts(plan: OwnerPlan, until_s: float) -> list[OwnerAct]:
    """Weekly hours: a notice before they begin, so that the machine is free on time; back when they end."""
    acts = []
    for week in range(int(until_s // WEEK_S) + 1):
        for hours in plan.hours:
            for day in hours.days:
                begin_s = week * WEEK_S + day * DAY_S
                come_s = begin_s + hours.from_s - plan.hours_notice_s
                go_s = begin_s + hours.to_s
                if 0.0 <= come_s < until_s:
                    acts.append(OwnerAct(at_s=come_s, do="reclaim", notice_s=plan.hours_notice_s))
                    acts.append(OwnerAct(at_s=go_s, do="resume"))
    return acts


def random_acts(plan: RandomOwner, stream: random.Random, until_s: float) -> list[OwnerAct]:
    acts = []
    at_s = stream.expovariate(1.0 / plan.mean_shared_s)
    while at_s < until_s:
        notice_s = stream.choice(plan.notices_s)
        if stream.random() < plan.paused_share:
            acts.append(OwnerAct(at_s=at_s, do="pause"))
        elif stream.random() < plan.announced_share:
            acts.append(OwnerAct(at_s=at_s, do="reclaim", notice_s=notice_s))
            if stream.random() < 0.1:  # changes their mind inside the notice, one way or the other
                second = stream.choice(("kill", "resume", "reclaim"))
                acts.append(
                    OwnerAct(at_s=at_s + notice_s * stream.random(), do=second, notice_s=notice_s / 3)
                )
            at_s += notice_s
        else:
            acts.append(OwnerAct(at_s=at_s, do="kill"))
        at_s += stream.expovariate(1.0 / plan.mean_away_s)
        if stream.random() < plan.leaving_share:
            acts.append(OwnerAct(at_s=at_s, do="leave", notice_s=notice_s))
            at_s += notice_s + stream.expovariate(1.0 / plan.mean_away_s)
            acts.append(OwnerAct(at_s=at_s, do="rejoin"))
        acts.append(OwnerAct(at_s=at_s, do="resume"))
        at_s += stream.expovariate(1.0 / plan.mean_shared_s)
    return acts
