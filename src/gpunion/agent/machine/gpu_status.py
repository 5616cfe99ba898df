"""One row a GPU for the owner: who is on it, how it is, and why it is not lent where it is not."""

from __future__ import annotations

from typing import Any

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.domain.nodes.withheld import WithheldGpu, withheld_of
from gpunion.domain.resources import Gpu
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import GpuSight


def gpu_rows(station: PureAgent, watch: GpuWatch | None, now_s: float) -> list[dict[str, Any]]:
    """What the driver does not say is None. `stale`: nothing newer could be seen."""
    guests = [guest for guest in station.engine.state.guests.values() if guest.living]
    rows = []
    for gpu in station.facts.capacity.gpus:
        sight = None if watch is None else watch.last.of(gpu.index)
        users = () if watch is None else watch.users.get(gpu.index, ())
        held = withheld_of(station.engine.state.holding.gpus, gpu.index)
        rows.append(
            {
                **_described(gpu),
                "runs": sorted(guest.run_id for guest in guests if gpu.index in guest.grant.gpu_indices),
                "withheld": None if held is None else _withheld(held, now_s),
                **_seen(sight),
                "processes": [_user(user) for user in users],
                "stale": watch is not None and sight is not None and bool(watch.last.trouble),
            }
        )
    return rows


def _described(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "model": gpu.model,
        "memory_bytes": gpu.memory_bytes,
        "declared": gpu.declared,
        "speed": gpu.speed,
    }


def _withheld(held: WithheldGpu, now_s: float) -> dict[str, Any]:
    return {
        "phase": held.phase.value,
        "cause": held.cause.value,
        "detail": held.detail,
        "because": held.because(),
        "deadline_in_s": None if held.deadline_s is None else max(0.0, held.deadline_s - now_s),
    }


def _seen(sight: GpuSight | None) -> dict[str, Any]:
    return {
        "uuid": None if sight is None else sight.uuid,
        "memory_used_bytes": None if sight is None else sight.memory_used_bytes,
        "utilisation": None if sight is None else sight.utilisation,
        "temperature_c": None if sight is None else sight.temperature_c,
        "power_w": None if sight is None else sight.power_w,
        "ecc_uncorrected": None if sight is None else sight.ecc_uncorrected,
    }


def _user(user: GpuUser) -> dict[str, Any]:
    return {
        "pid": user.pid,
        "name": user.name,
        "memory_bytes": user.memory_bytes,
        "run_id": user.run_id,
        "ignored": user.ignored,
    }
