"""Quotas and shares: who holds how many GPUs, who may, and who has used and lent how much."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from gpunion.coordinator.api.access import Admin, TheCampus
from gpunion.coordinator.api.problems import not_found
from gpunion.coordinator.services import Campus
from gpunion.domain.jobs.account import OF_CLASS_HIGH, Account, Quota, user_account
from gpunion.domain.protocol.events import QuotaSet
from gpunion.policy.fairness import HALF_LIFE_S, Shares, as_of
from gpunion.policy.quota import limit_of
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import quotas as wire

router = APIRouter(prefix="/quotas", tags=["campus"])

Name = Annotated[wire.QuotaName, Path(description="user:NAME, lab:NAME, user:* or lab:*")]
OfClass = Annotated[wire.RationedClass | None, Query(description="count jobs of this class alone")]
_HOUR_S = 3600.0


@router.get("")
async def quotas(campus: TheCampus, _caller: Admin) -> wire.QuotaList:
    memories = campus.state.memories
    known = Shares(accounts=memories.accounts, now_s=campus.clock.now_s())
    return wire.QuotaList(
        quotas=[_quota_out(memories.quotas[name]) for name in sorted(memories.quotas) if _set(campus, name)],
        accounts=[_account_out(campus, memories.accounts[name], known) for name in sorted(memories.accounts)],
        half_life_s=HALF_LIFE_S,
    )


@router.put("/{name}")
async def set_quota(
    name: Name, wish: wire.QuotaIn, campus: TheCampus, caller: Admin, priority: OfClass = None
) -> wire.QuotaOut:
    quota_id = _id(name, priority)
    quota = Quota(id=quota_id, gpus=wish.gpus, set_s=campus.clock.now_s(), by=caller.name)
    await campus.loop.post(QuotaSet(quota=quota))
    return _quota_out(campus.state.memories.quotas[quota_id])


@router.delete("/{name}")
async def lift_quota(name: Name, campus: TheCampus, caller: Admin, priority: OfClass = None) -> wire.QuotaOut:
    quota_id = _id(name, priority)
    if not _set(campus, quota_id):
        raise not_found(f"quota of {name[:64]}", "GET /api/v1/quotas lists the quotas there are")
    lifted = _quota_out(campus.state.memories.quotas[quota_id])
    quota = Quota(id=quota_id, gpus=None, set_s=campus.clock.now_s(), by=caller.name)
    await campus.loop.post(QuotaSet(quota=quota))
    return lifted


def _id(name: str, priority: str | None) -> str:
    return name if priority is None else name + OF_CLASS_HIGH


def _set(campus: Campus, name: str) -> bool:
    quota = campus.state.memories.quotas.get(name)
    return quota is not None and quota.gpus is not None


def _quota_out(quota: Quota) -> wire.QuotaOut:
    name = quota.id.removesuffix(OF_CLASS_HIGH)
    return wire.QuotaOut(
        name=name,
        priority=None if name == quota.id else "high",
        gpus=quota.gpus or 0,
        set_at=convert.shown_time(quota.set_s),
        by=quota.by,
    )


def _high_limit(campus: Campus, name: str) -> int | None:
    limit = limit_of(name + OF_CLASS_HIGH, campus.state.memories.quotas)
    if limit is None and name == user_account(name.partition(":")[2]):
        return campus.station.engine.policies.high_gpus_a_user
    return limit


def _account_out(campus: Campus, account: Account, known: Shares) -> wire.AccountOut:
    now = as_of(account, known.now_s)
    return wire.AccountOut(
        name=account.id,
        held_gpus=account.held_gpus,
        limit=limit_of(account.id, campus.state.memories.quotas),
        high_gpus=account.high_gpus,
        high_limit=_high_limit(campus, account.id),
        used_gpu_h=now.used_gpu_s / _HOUR_S,
        used_share=known.used_share(account.id),
        lent_gpu_h=now.lent_gpu_s / _HOUR_S,
    )
