"""May this user, and this lab, hold so many GPUs at once, and so many for jobs of class high?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpunion.domain.jobs.account import (
    EVERYBODY,
    OF_CLASS_HIGH,
    Account,
    Quota,
    lab_account,
    user_account,
)
from gpunion.domain.jobs.job import Job, Priority
from gpunion.domain.reasons.reason import Reason, Why, because

# What a user without a quota may hold for jobs of class high: who may drive others out has to be rationed.
HIGH_GPUS_A_USER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    account: str
    gpus: int
    held: int
    high: bool


def limit_of(name: str, quotas: Mapping[str, Quota]) -> int | None:
    """An account's own quota, else that of everybody of its kind, else none. `name`: an account's, or that
    with `OF_CLASS_HIGH` behind it."""
    own = quotas.get(name)
    if own is not None and own.gpus is not None:
        return own.gpus
    of_class = OF_CLASS_HIGH if name.endswith(OF_CLASS_HIGH) else ""
    everybody = quotas.get(f"{name.partition(':')[0]}:{EVERYBODY}{of_class}")
    return None if everybody is None else everybody.gpus


def over_quota(
    job: Job,
    accounts: Mapping[str, Account],
    quotas: Mapping[str, Quota],
    high_gpus_a_user: int | None = None,
) -> Reason | None:
    """Why it may not begin now, though there be room. A job that asks for no GPU is never held back.

    `high_gpus_a_user`: what of class high a user may hold who has no quota for it; None: any number.
    """
    needs = job.spec.request.gpus
    if needs == 0 or (not quotas and high_gpus_a_user is None):
        return None
    limits = tuple(_limits(job, accounts, quotas, high_gpus_a_user))
    for one in limits:
        if needs > one.gpus:  # no end of another job will ever let it begin
            why = Why.HIGH_QUOTA_TOO_SMALL if one.high else Why.QUOTA_TOO_SMALL
            return because(job.id, why, who=_who(one), limit=one.gpus, needs=needs, account=one.account)
    for one in limits:
        if one.held + needs > one.gpus:
            why = Why.HIGH_QUOTA_REACHED if one.high else Why.QUOTA_REACHED
            return because(job.id, why, who=_who(one), held=one.held, limit=one.gpus, needs=needs)
    return None


def _limits(
    job: Job, accounts: Mapping[str, Account], quotas: Mapping[str, Quota], high_gpus_a_user: int | None
) -> Iterator[_Limit]:
    user = user_account(job.spec.owner)
    for name in (user, *((lab_account(job.spec.lab),) if job.spec.lab else ())):
        account = accounts.get(name)
        gpus = limit_of(name, quotas)
        if gpus is not None:
            held = 0 if account is None else account.held_gpus
            yield _Limit(account=name, gpus=gpus, held=held, high=False)
        if job.spec.priority is not Priority.HIGH:
            continue
        gpus = limit_of(name + OF_CLASS_HIGH, quotas)
        if gpus is None and name == user:
            gpus = high_gpus_a_user
        if gpus is not None:
            held = 0 if account is None else account.high_gpus
            yield _Limit(account=name, gpus=gpus, held=held, high=True)


def _who(limit: _Limit) -> str:
    return limit.account.replace(":", " ", 1)
