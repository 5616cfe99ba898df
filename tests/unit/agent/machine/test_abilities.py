from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gpunion.agent.machine.abilities import AGAIN_AFTER_S, try_until_able
from gpunion.domain.system_tier import SystemAbility
from gpunion.ports.runtime import RuntimeFault

BUSY = SystemAbility(why_not="its processes did not stand still", kind="k")
ABLE = SystemAbility(able=True, why_not="", kind="k")


def one_after_the_other(answers: Iterator[SystemAbility]) -> Callable[[], Awaitable[SystemAbility]]:
    async def try_it() -> SystemAbility:
        return next(answers)

    return try_it


async def test_a_machine_that_can_is_tried_once() -> None:
    told: list[SystemAbility] = []
    await try_until_able(one_after_the_other(iter([ABLE])), told.append)
    assert told == [ABLE]


@pytest.mark.parametrize("trouble", [OSError("No space left"), RuntimeFault("no answer", temporary=True)])
async def test_a_trial_that_breaks_off_is_one_that_did_not_work(trouble: Exception) -> None:
    told: list[SystemAbility] = []
    answers: Iterator[Exception | SystemAbility] = iter([trouble, ABLE])

    async def try_it() -> SystemAbility:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    await try_until_able(try_it, told.append, sleep=lambda seconds: asyncio.sleep(0))
    assert [ability.able for ability in told] == [False, True]
    assert str(trouble) in told[0].why_not


async def test_one_that_was_busy_is_tried_again_ever_more_seldom_and_tells_only_what_is_new() -> None:
    told: list[SystemAbility] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    answers = iter([BUSY] * (len(AGAIN_AFTER_S) + 2) + [ABLE])
    await try_until_able(one_after_the_other(answers), told.append, sleep)
    assert told == [BUSY, ABLE]
    assert slept == [*AGAIN_AFTER_S, AGAIN_AFTER_S[-1], AGAIN_AFTER_S[-1]]
    assert slept == sorted(slept)
