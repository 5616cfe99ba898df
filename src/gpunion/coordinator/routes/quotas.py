"""Quotas and shares: who holds how many GPUs, who may, and who has used and lent how much."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from gpunion.coordinator.campus import Campus
from gpunion.coordinator.problems import not_found
from gpunion.coordinator.routes.access import Admin, TheCampus
from gpunion.domain.account import Account, Quota
from gpunion.domain.events import QuotaSet
from gpunion.policy.fairness import HALF_LIFE_S, Shares, as_of
from gpunion.policy.quota import limit_of
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import quotas as wire

router = APIRouter(prefix="/quotas", tags=["campus"])

Name = Annotated[wire.QuotaName, Path(description="user:NAME, lab:NAME, user:* or lab:*")]
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
async def set_quota(name: Name, wish: wire.QuotaIn, campus: TheCampus, caller: Admin) -> wire.QuotaOut:
    quota = Quota(id=name, gpus=wish.gpus, set_s=campus.clock.now_s(), by=caller.name)
    await campus.loop.post(QuotaSet(quota=quota))
    return _quota_out(campus.state.memories.quotas[name])


@router.delete("/{name}")
async def lift_quota(name: Name, campus: TheCampus, caller: Admin) -> wire.QuotaOut:
    if not _set(campus, name):
        raise not_found(f"quota of {name[:64]}", "GET /api/v1/quotas lists the quotas there are")
    lifted = _quota_out(campus.state.memories.quotas[name])
    quota = Quota(id=name, gpus=None, set_s=campus.clock.now_s(), by=caller.name)
    await campus.loop.post(QuotaSet(quota=quota))
    return lifted


def _set(campus: Campus, name: str) -> bool:
    quota = campus.state.memories.quotas.get(name)
    return quota is not None and quota.gpus is not None


def _quota_out(quota: Quota) -> wire.QuotaOut:
    return wire.QuotaOut(
        name=quota.id, gpus=quota.gpus or 0, set_at=convert.shown_time(quota.set_s), by=quota.by
    )


def _account_out(campus: Campus, account: Account, known: Shares) -> wire.AccountOut:
    now = as_of(account, known.now_s)
    return wire.AccountOut(
        name=account.id,
        held_gpus=account.held_gpus,
        limit=limit_of(account.id, campus.state.memories.quotas),
        used_gpu_h=now.used_gpu_s / _HOUR_S,
        used_share=known.used_share(account.id),
        lent_gpu_h=now.lent_gpu_s / _HOUR_S,
    )
