"""May this user, and this lab, hold so many GPUs at once?"""

from __future__ import annotations

from collections.abc import Mapping

from gpunion.domain.account import EVERYBODY, Account, Quota, lab_account, user_account
from gpunion.domain.job import Job
from gpunion.domain.reasons import Reason, Why, because


def limit_of(name: str, quotas: Mapping[str, Quota]) -> int | None:
    """An account's own quota, else that of everybody of its kind, else none."""
    own = quotas.get(name)
    if own is not None and own.gpus is not None:
        return own.gpus
    everybody = quotas.get(f"{name.partition(':')[0]}:{EVERYBODY}")
    return None if everybody is None else everybody.gpus


def over_quota(job: Job, accounts: Mapping[str, Account], quotas: Mapping[str, Quota]) -> Reason | None:
    """Why it may not begin now, though there be room. A job that asks for no GPU is never held back."""
    needs = job.spec.request.gpus
    if not quotas or needs == 0:
        return None
    names = [user_account(job.spec.owner)]
    if job.spec.lab:
        names.append(lab_account(job.spec.lab))
    limits = [(name, limit) for name in names if (limit := limit_of(name, quotas)) is not None]
    for name, limit in limits:
        if needs > limit:  # no end of another job will ever let it begin
            who = name.replace(":", " ", 1)
            return because(job.id, Why.QUOTA_TOO_SMALL, who=who, limit=limit, needs=needs, account=name)
    for name, limit in limits:
        account = accounts.get(name)
        held = 0 if account is None else account.held_gpus
        if held + needs > limit:
            who = name.replace(":", " ", 1)
            return because(job.id, Why.QUOTA_REACHED, who=who, held=held, limit=limit, needs=needs)
    return None
