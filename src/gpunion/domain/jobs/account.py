"""Who uses and who lends: what fair share and quotas are counted by."""

from __future__ import annotations

from dataclasses import dataclass

EVERYBODY = "*"
# Ends the id of a quota that counts jobs of class high alone; no name of a user or a lab has a slash.
OF_CLASS_HIGH = "/high"


def user_account(user: str) -> str:
    return f"user:{user}"


def lab_account(lab: str) -> str:
    return f"lab:{lab}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one run counts for, fixed when it begins: a lab renamed meanwhile must not unbalance the books.

    `pace`: reference GPUs; zero on a machine of the job's own lab, which costs nobody anything.
    """

    user: str
    lab: str
    lender: str
    gpus: int
    pace: float
    high: bool = False  # of a job of class high


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Of one user or lab. Sums fade, are as of `as_of_s` and grow by their pace from then on."""

    id: str
    as_of_s: float
    used_gpu_s: float = 0.0  # on other labs' machines, at reference speed
    lent_gpu_s: float = 0.0  # by its machines to other labs' jobs
    using: float = 0.0  # reference GPUs, right now
    lending: float = 0.0
    held_gpus: int = 0  # cards, its own lab's too: what quotas count
    high_gpus: int = 0  # of them, those that jobs of class high hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many GPUs an account may hold at once. The id is an account's, or `user:*`, `lab:*` for any that
    has none of its own. Where it ends as `OF_CLASS_HIGH` does, it counts jobs of class high alone. None: as
    many as there are."""

    id: str
    gpus: int | None
    set_s: float
    by: str = ""
