"""Who holds how many GPUs, who may, and who has used and lent how much."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gpunion.wire.v1.strict import Answer, Strict

GPUS_MOST = 1_000_000
# `user:NAME` or `lab:NAME`; a star is for everybody who has no quota of their own.
QuotaName = Annotated[
    str, StringConstraints(max_length=140, pattern=r"^(user|lab):(\*|[^\x00-\x1f\x7f/*]+)$")
]


# The class whose jobs it counts; all of them where it is left out.
RationedClass = Literal["high"]


class QuotaIn(Strict):
    gpus: int = Field(ge=0, le=GPUS_MOST)


class QuotaOut(Answer):
    name: str
    priority: RationedClass | None = Field(description="the class whose jobs it counts; null: all of them")
    gpus: int
    set_at: str
    by: str


class AccountOut(Answer):
    """`limit` is null where nothing limits it; hours are of a reference GPU and fade with a half-life."""

    name: str
    held_gpus: int
    limit: int | None
    high_gpus: int = Field(description="of those held, what jobs of class high hold")
    high_limit: int | None
    used_gpu_h: float
    used_share: float
    lent_gpu_h: float


class QuotaList(Answer):
    quotas: list[QuotaOut]
    accounts: list[AccountOut]
    half_life_s: float
