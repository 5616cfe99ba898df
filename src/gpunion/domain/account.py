"""Who uses and who lends: what fair share and quotas are counted by."""

from __future__ import annotations

from gpunion.domain.records import dataclass

EVERYBODY = "*"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many GPUs an account may hold at once. The id is an account's, or `user:*`, `lab:*` for any that
    has none of its own. None: as many as there are."""

    id: str
    gpus: int | None
    set_s: float
    by: str = ""
