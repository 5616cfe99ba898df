"""Whose turn is it? A share of what was used lately, less what was lent.

Use fades with a half-life, so that a busy week is forgotten in a few quiet ones. It is counted at the speed
of the card, on other labs' machines only: whoever works on their own lab's machine takes nothing from
anybody. What a lab lent to others is subtracted. Leaving costs nothing: an owner who takes a machine back
stops earning and loses nothing earned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import expm1, log

from gpunion.domain.jobs.account import Account, Charge, lab_account, user_account

HALF_LIFE_S = 7 * 86_400.0
_FADE_PER_S = log(2.0) / HALF_LIFE_S
# Whoever holds a GPU is taken to keep it for this long: else one user gets all that is free at one moment.
CLAIM_S = 3600.0


def as_of(account: Account, now_s: float) -> Account:
    """The same account at a later moment: sums fade, and grow by what goes on."""
    passed_s = max(0.0, now_s - account.as_of_s)
    gone = -expm1(-_FADE_PER_S * passed_s)
    kept, grown_s = 1.0 - gone, gone / _FADE_PER_S
    return replace(
        account,
        as_of_s=max(now_s, account.as_of_s),
        used_gpu_s=kept * account.used_gpu_s + grown_s * account.using,
        lent_gpu_s=kept * account.lent_gpu_s + grown_s * account.lending,
    )


def after_charge(account: Account, charge: Charge, now_s: float, *, sign: int) -> Account:
    """`sign`: 1 where the run begins, -1 where it ended."""
    account = as_of(account, now_s)
    pace, gpus = sign * charge.pace, sign * charge.gpus
    if account.id in (user_account(charge.user), lab_account(charge.lab)):
        # A lab that lends to itself has a pace of zero, so that one account never does both.
        return replace(
            account,
            using=account.using + pace,
            held_gpus=account.held_gpus + gpus,
            high_gpus=account.high_gpus + (gpus if charge.high else 0),
        )
    return replace(account, lending=account.lending + pace)


def accounts_of(charge: Charge) -> tuple[str, ...]:
    """Each once, in a fixed order; nobody's lab has no account."""
    names = [user_account(charge.user)]
    names += [lab_account(lab) for lab in (charge.lab, charge.lender) if lab]
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How far each account is ahead of others. The accounts may go on changing while it is asked."""

    accounts: Mapping[str, Account]
    now_s: float

    def standing(self, lab: str, user: str) -> tuple[float, float]:
        """Less goes first: labs among each other, then the lab's users. Nobody's lab is the user's own."""
        of_user = self.balance(user_account(user))
        return (self.balance(lab_account(lab)) if lab else of_user, of_user)

    def balance(self, name: str) -> float:
        """Reference GPU-seconds used, or about to be, less those lent."""
        account = self.accounts.get(name)
        if account is None:
            return 0.0
        now = as_of(account, self.now_s)
        return now.used_gpu_s + CLAIM_S * now.using - now.lent_gpu_s

    def used_share(self, name: str) -> float:
        """The part of all that was used lately; of users among users, of labs among labs."""
        kind = name.partition(":")[0]
        used = {
            one.id: as_of(one, self.now_s).used_gpu_s
            for one in self.accounts.values()
            if one.id.startswith(f"{kind}:")
        }
        total = sum(used.values())
        return used.get(name, 0.0) / total if total > 0 else 0.0
