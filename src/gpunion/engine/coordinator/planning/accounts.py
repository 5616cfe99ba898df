"""Keeps the books: what each run counts for, from when it is ordered until it has ended."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.account import OF_CLASS_HIGH, Account, Charge, lab_account, user_account
from gpunion.domain.jobs.job import Job, Priority
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.events import QuotaSet
from gpunion.domain.reasons.reason import Reason, Why, because
from gpunion.domain.resources import Grant
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.policy.deadline import behind_s, is_late, missed
from gpunion.policy.fairness import Shares, accounts_of, after_charge, as_of
from gpunion.policy.ordering import Ahead, Queue, why_ahead
from gpunion.policy.quota import over_quota

_HOUR_S = 3600.0


def charge_for(draft: Draft, job: Job, node_id: NodeId, grant: Grant) -> Charge:
    facts = draft.state.nodes[node_id].facts
    held = set(grant.gpu_indices)
    speeds = [gpu.speed for gpu in facts.capacity.gpus if gpu.index in held]
    at_home = job.spec.lab != "" and job.spec.lab == facts.lab
    return Charge(
        user=job.spec.owner,
        lab=job.spec.lab,
        lender=facts.lab,
        gpus=len(held),
        pace=0.0 if at_home else len(held) * min(speeds, default=0.0),
        high=job.spec.priority is Priority.HIGH,
    )


def began(draft: Draft, run: Run) -> None:
    _count(draft, run, sign=1)


def gave_back(draft: Draft, run: Run) -> None:
    """It has its GPUs no longer, for now: in the middle of a decision, when ends have been followed."""
    _count(draft, run, sign=-1)
    _lent(draft, run)


def follow_ends(draft: Draft) -> None:
    """After an event, before anybody is placed: what has ended, or needs its GPUs no more, counts no more."""
    for former, run in draft.changed_runs():
        if former is not None and former.has_gpus and not run.has_gpus:
            _count(draft, run, sign=-1)
            _lent(draft, run)


def _lent(draft: Draft, run: Run) -> None:
    """What a machine has given to guests, whoever they were; one that never started had nothing of it."""
    node = draft.state.nodes.get(run.node_id)
    if node is not None and run.started_s is not None:
        draft.put(replace(node, lent_gpu_s=node.lent_gpu_s + run.held_gpu_s(draft.now_s)))


def set_quota(draft: Draft, event: QuotaSet) -> None:
    draft.put(event.quota)
    shown = "any number of" if event.quota.gpus is None else str(event.quota.gpus)
    name = event.quota.id.removesuffix(OF_CLASS_HIGH)
    why = Why.QUOTA_SET if name == event.quota.id else Why.HIGH_QUOTA_SET
    draft.because(event.quota.id, why, who=name.replace(":", " ", 1), gpus=shown, by=event.quota.by)
    draft.look_again = True


def shares(draft: Draft) -> Shares:
    return Shares(accounts=draft.state.memories.accounts, now_s=draft.now_s)


def held_back(draft: Draft, job: Job, to_come: Iterable[Job] = ()) -> Reason | None:
    """`to_come`: who will hold what they asked for before this one."""
    books = Books(draft)
    for one in to_come:
        books.count(one)
    return books.held_back(job)


class Books:
    """What everybody holds, and will hold once those who are counted here have begun."""

    def __init__(self, draft: Draft):
        self._draft = draft
        self._to_come: dict[str, Account] = {}

    def count(self, job: Job) -> None:
        gpus, high = job.spec.request.gpus, job.spec.priority is Priority.HIGH
        known = self._known()
        for name in {user_account(job.spec.owner), lab_account(job.spec.lab)}:
            account = known.get(name) or Account(id=name, as_of_s=self._draft.now_s)
            self._to_come[name] = replace(
                account,
                held_gpus=account.held_gpus + gpus,
                high_gpus=account.high_gpus + (gpus if high else 0),
            )

    def held_back(self, job: Job) -> Reason | None:
        quotas, policies = self._draft.state.memories.quotas, self._draft.policies
        return over_quota(job, self._known(), quotas, policies.high_gpus_a_user)

    def _known(self) -> Mapping[str, Account]:
        accounts = self._draft.state.memories.accounts
        return ChainMap(self._to_come, accounts) if self._to_come else accounts


def waits_because(draft: Draft, job: Job) -> list[Reason]:
    """What besides the machines themselves decides when a waiting job gets its turn."""
    if job.holds_back:
        return [because(job.id, Why.BIDS_NOTHING)]
    reasons = []
    over = held_back(draft, gangs.as_one(job))
    if over is not None:
        reasons.append(over)
    if is_late(job, draft.now_s):
        reasons.append(because(job.id, Why.BEHIND_DEADLINE, behind_s=behind_s(job, draft.now_s)))
    elif missed(job, draft.now_s):
        reasons.append(because(job.id, Why.DEADLINE_MISSED))
    if over is None and draft.policies.ordering.fair:  # a turn is of no use to who may not have more
        reasons.append(_turn(draft, job))
    return reasons


def by_turn(draft: Draft) -> list[Job]:
    """Everybody who waits for a turn, by the key of the ordering."""
    waiting = (draft.state.jobs[job_id] for job_id in draft.state.waiting)
    return sorted((job for job in waiting if not job.holds_back), key=draft.policies.ordering.key)


def _turn(draft: Draft, job: Job) -> Reason:
    ordering = draft.policies.ordering
    known = shares(draft)
    own_gang = {one.id for one in gangs.members(draft, job)}
    ahead: Counter[Ahead] = Counter()
    for one in Queue(by_turn(draft), ordering, known):
        if one.id == job.id:
            break
        if one.id not in own_gang:
            ahead[why_ahead(one, job, ordering, known)] += 1
    if not ahead:
        return because(job.id, Why.FIRST_IN_LINE)
    told = ", ".join(f"{ahead[why]} {why.value}" for why in Ahead if ahead[why])
    if not ahead[Ahead.USED_LESS]:
        return because(job.id, Why.IN_LINE, ahead=ahead.total(), because=told)
    name = lab_account(job.spec.lab) if job.spec.lab else user_account(job.spec.owner)
    account = as_of(known.accounts.get(name) or Account(id=name, as_of_s=draft.now_s), draft.now_s)
    return because(
        job.id,
        Why.TURN,
        ahead=ahead.total(),
        because=told,
        who=name.replace(":", " ", 1),
        share=round(100 * known.used_share(name)),
        used_h=account.used_gpu_s / _HOUR_S,
        lent_h=account.lent_gpu_s / _HOUR_S,
    )


def _count(draft: Draft, run: Run, *, sign: int) -> None:
    charge = run.charge
    if charge is None:
        return
    for name in accounts_of(charge):
        account = draft.state.memories.accounts.get(name) or Account(id=name, as_of_s=draft.now_s)
        draft.put(after_charge(account, charge, draft.now_s, sign=sign))
