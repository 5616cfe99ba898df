"""What an owner says of single GPUs, through the agent's socket."""

from __future__ import annotations

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.domain.jobs.guest import OwnerState
from tests.unit.agent.test_owner import Stage, stage

__all__ = ["stage"]


async def test_one_gpu_is_reclaimed_paused_and_lent_again(stage: Stage) -> None:
    answer = await stage.say("reclaim", gpus=[0], notice_s=30)
    assert "GPU 0 is yours: no guest is on it" in answer["message"]
    assert stage.owner_state is OwnerState.SHARING
    assert answer["status"]["gpus"][0]["withheld"]["phase"] == "reclaimed"
    answer = await stage.say("resume", gpus=[0])
    assert answer["message"] == "GPU 0 is shared again."
    assert answer["status"]["gpus"][0]["withheld"] is None
    answer = await stage.say("pause", gpus=[0])
    assert answer["status"]["gpus"][0]["withheld"]["because"] == "GPU 0: its owner takes no new guests on it"
    assert stage.forced == 3


async def test_a_guest_on_the_gpu_has_its_notice(stage: Stage) -> None:
    await stage.with_a_guest()
    answer = await stage.say("reclaim", gpus=[0], notice_s=30)
    assert "GPU 0 is yours in 30 s at most. The rest of the machine stays shared." in answer["message"]
    row = answer["status"]["gpus"][0]
    assert (row["withheld"]["deadline_in_s"], len(row["runs"])) == (30.0, 1)


async def test_a_gpu_of_a_paused_machine_is_lent_when_the_machine_is(stage: Stage) -> None:
    await stage.say("pause")
    answer = await stage.say("resume", gpus=[0])
    assert answer["message"] == "GPU 0 is shared again as soon as the machine is: it is paused."


@pytest.mark.parametrize("gpus", [[7], [True], ["0"], [-1], [], 0, "0", {}])
async def test_gpus_that_are_not_there_are_named(stage: Stage, gpus: object) -> None:
    with pytest.raises(owner_client.Refused, match="no GPU"):
        await stage.say("reclaim", gpus=gpus)
    assert stage.loop.station.engine.state.holding.gpus == ()
