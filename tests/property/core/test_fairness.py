"""Fair share, quotas and deadlines, whatever arrives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.jobs.account import Account, Charge, Quota
from gpunion.domain.jobs.job import Job, JobSpec, Priority
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.protocol.events import QuotaSet
from gpunion.policy.deadline import behind_s, is_late, missed
from gpunion.policy.fairness import HALF_LIFE_S, Shares, accounts_of, after_charge, as_of
from gpunion.policy.ordering import PATIENCE_S, FairShare, Queue
from gpunion.policy.policies import LIVE
from tests.builders import Headquarters, a_job, a_spec, facts
from tests.searching import FEW, QUICK

USERS = st.sampled_from(("ada", "bob", "cy"))
LABS = st.sampled_from(("", "vision", "robots"))
PACES = st.floats(min_value=0.0, max_value=8.0)
SPANS = st.floats(min_value=0.0, max_value=30 * 86_400.0)


def waiting_job(number: int, user: str, lab: str, submitted_s: float, priority: Priority) -> Job:
    spec = replace(a_spec(lab=lab, priority=priority), owner=user)
    return a_job(f"job-{number}", spec=spec, submitted_s=submitted_s, waiting_since_s=submitted_s)


waiting_jobs = st.lists(
    st.tuples(USERS, LABS, st.floats(min_value=0.0, max_value=2 * PATIENCE_S), st.sampled_from(Priority)),
    max_size=20,
).map(lambda rows: [waiting_job(number, *row) for number, row in enumerate(rows)])
books = st.dictionaries(
    st.sampled_from(("user:ada", "user:bob", "lab:vision", "lab:robots")),
    st.tuples(PACES, SPANS, SPANS),
).map(
    lambda rows: {
        name: Account(id=name, as_of_s=0.0, using=using, used_gpu_s=used, lent_gpu_s=lent)
        for name, (using, used, lent) in rows.items()
    }
)


def queue_of(jobs: list[Job], accounts: dict[str, Account], now_s: float = 2 * PATIENCE_S) -> Queue:
    ordering = FairShare()
    return Queue(sorted(jobs, key=ordering.key), ordering, Shares(accounts=accounts, now_s=now_s))


@QUICK
@given(jobs=waiting_jobs, accounts=books, served=st.sets(st.integers(min_value=0, max_value=19)))
def test_everybody_has_exactly_one_turn_and_classes_come_in_their_order(
    jobs: list[Job], accounts: dict[str, Account], served: set[int]
) -> None:
    queue = queue_of(jobs, accounts)
    turns = []
    for number, job in enumerate(queue):
        turns.append(job)
        if number in served:
            queue.served()
    assert sorted(job.id for job in turns) == sorted(job.id for job in jobs)
    lanes = [FairShare().lane(job, 2 * PATIENCE_S) for job in turns]
    assert lanes == sorted(lanes)


@QUICK
@given(jobs=waiting_jobs, accounts=books)
def test_who_has_waited_for_a_day_is_before_whoever_came_later(
    jobs: list[Job], accounts: dict[str, Account]
) -> None:
    """No starvation: however much somebody has used, after a day only those who came earlier go first."""
    now_s = 2 * PATIENCE_S
    turns = list(queue_of(jobs, accounts, now_s))
    for position, job in enumerate(turns):
        if now_s - job.waiting_since_s > PATIENCE_S:
            same_class = [one for one in turns[:position] if one.spec.priority is job.spec.priority]
            assert all(one.submitted_s <= job.submitted_s for one in same_class)


@QUICK
@given(accounts=books, jobs=waiting_jobs)
def test_of_the_usual_the_account_with_the_least_share_goes_first(
    accounts: dict[str, Account], jobs: list[Job]
) -> None:
    now_s = 0.0  # nobody has waited yet
    fresh = [replace(job, submitted_s=0.0, waiting_since_s=0.0) for job in jobs]
    shares = Shares(accounts=accounts, now_s=now_s)
    turns = list(queue_of(fresh, accounts, now_s))
    for former, later in pairwise(turns):
        if former.spec.priority is later.spec.priority:
            assert shares.standing(former.spec.lab, former.spec.owner) <= shares.standing(
                later.spec.lab, later.spec.owner
            )


@QUICK
@given(pace=PACES, first_s=SPANS, then_s=SPANS, used=SPANS)
def test_looking_at_an_account_more_often_changes_nothing(
    pace: float, first_s: float, then_s: float, used: float
) -> None:
    account = Account(id="user:ada", as_of_s=0.0, used_gpu_s=used, using=pace)
    twice = as_of(as_of(account, first_s), first_s + then_s)
    once = as_of(account, first_s + then_s)
    assert abs(twice.used_gpu_s - once.used_gpu_s) <= 1e-6 * (1 + once.used_gpu_s)
    assert once.used_gpu_s <= used + pace * HALF_LIFE_S * 1.5


@QUICK
@given(
    charges=st.lists(
        st.builds(Charge, user=USERS, lab=LABS, lender=LABS, gpus=st.integers(0, 8), pace=PACES), max_size=8
    )
)
def test_books_are_even_when_everything_has_ended(charges: list[Charge]) -> None:
    books: dict[str, Account] = {}
    for sign in (1, -1):
        for number, charge in enumerate(charges):
            at_home = charge.lab != "" and charge.lab == charge.lender
            charge = replace(charge, pace=0.0) if at_home else charge
            for name in accounts_of(charge):
                account = books.get(name) or Account(id=name, as_of_s=0.0)
                books[name] = after_charge(account, charge, 100.0 * number, sign=sign)
    for account in books.values():
        assert account.held_gpus == 0
        assert abs(account.using) < 1e-9
        assert abs(account.lending) < 1e-9
        assert account.used_gpu_s >= -1e-6


@FEW
@given(
    arrivals=st.lists(st.tuples(USERS, LABS, st.integers(1, 2)), min_size=1, max_size=7),
    limits=st.fixed_dictionaries({"user:*": st.integers(0, 3), "lab:vision": st.integers(0, 3)}),
    ends=st.lists(st.integers(0, 6), max_size=5),
)
def test_no_quota_is_ever_exceeded_and_whoever_is_allowed_runs_in_the_end(
    arrivals: list[tuple[str, str, int]], limits: dict[str, int], ends: list[int]
) -> None:
    """The audit counts the runs themselves after every decision; here it is only made to happen."""
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    for node in ("alpha", "beta", "gamma"):
        headquarters.joins(node, facts(gpus=2, lab=node))
    for name, gpus in limits.items():
        headquarters.hears(QuotaSet(quota=Quota(id=name, gpus=gpus, set_s=0.0, by="ops")))
    for number, (user, lab, gpus) in enumerate(arrivals):
        spec = replace(a_spec(lab=lab, gpus=gpus), owner=user)
        headquarters.later(1.0).submits(f"job-{number}", spec)
    for end in ends:
        _finish(headquarters.later(10.0), end)
    for _ in range(3):
        for number in range(len(arrivals)):
            _finish(headquarters.later(10.0), number)
    for number, (_user, lab, gpus) in enumerate(arrivals):
        allowed = gpus <= limits["user:*"] and (lab != "vision" or gpus <= limits["lab:vision"])
        assert headquarters.job(f"job-{number}").phase.over == allowed
    assert all(account.held_gpus == 0 for account in headquarters.state.memories.accounts.values())


def _finish(headquarters: Headquarters, number: int) -> None:
    running = [
        run
        for run in headquarters.state.runs.values()
        if run.job_id == f"job-{number}" and run.phase in (RunPhase.ORDERED, RunPhase.RUNNING)
    ]
    for run in running:
        if run.phase is RunPhase.ORDERED:
            headquarters.started(run.id)
        headquarters.ended(run.id, EndReason.FINISHED, exit_code=0)


def a_deadline_job(work_s: float, within_s: float) -> JobSpec:
    return replace(a_spec(expected_s=work_s), finish_within_s=within_s)


@QUICK
@given(
    work_s=st.floats(min_value=60.0, max_value=1e5),
    slack=st.floats(min_value=1.0, max_value=10.0),
    passed=st.floats(min_value=0.0, max_value=1.2),
)
def test_a_job_that_never_runs_is_late_in_time_and_given_up_in_the_end(
    work_s: float, slack: float, passed: float
) -> None:
    within_s = slack * work_s
    job = a_job(spec=a_deadline_job(work_s, within_s))
    now_s = passed * within_s
    assert not (is_late(job, now_s) and missed(job, now_s))
    assert is_late(job, now_s) == (behind_s(job, now_s) > 0)
    if passed > 0.1 and not missed(job, now_s):
        assert is_late(job, now_s)  # far enough before the end that it can still be done
    assert missed(job, within_s)
