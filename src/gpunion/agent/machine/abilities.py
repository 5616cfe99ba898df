"""Whether whole guests can be dumped on this machine: tried, and where it did not work, tried again later.

A machine that is just being started, or busy, may fail a trial that it would pass a minute later; and an
owner may have installed meanwhile what was missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import chain, repeat

from gpunion.domain.system_tier import SystemAbility
from gpunion.ports.runtime import RuntimeFault

# Then as often as the last says: a trial takes some seconds of one core.
AGAIN_AFTER_S = (60.0, 600.0, 3600.0, 24 * 3600.0)


async def try_until_able(
    try_it: Callable[[], Awaitable[SystemAbility]],
    told: Callable[[SystemAbility], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """`told` hears what is new."""
    known: SystemAbility | None = None
    for again_after_s in chain(AGAIN_AFTER_S, repeat(AGAIN_AFTER_S[-1])):
        ability = await _tried(try_it)
        if ability != known:
            told(ability)
            known = ability
        if ability.able:
            return
        await sleep(again_after_s)


async def _tried(try_it: Callable[[], Awaitable[SystemAbility]]) -> SystemAbility:
    """A trial that breaks off (a full disk, an upgrade under way) is one that did not work, and no more."""
    try:
        return await try_it()
    except (OSError, RuntimeFault) as trouble:
        return SystemAbility(why_not=f"it could not be tried: {trouble}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRuntime:
    name: str
    described: str = ""  # how it would confine guests, where it works
    trouble: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What a runtime keeps for us outside the state directory. `trouble`: why that cannot be told."""

    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    host_image: str = ""  # of all agents on this machine: it goes with the last of them
    trouble: str = ""
