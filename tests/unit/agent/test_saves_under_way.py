"""How far a save is: as the engine knows of it, and as the hands say meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace

from gpunion.domain.frames import SaveNote, SaveStage
from gpunion.domain.guest import Saving
from gpunion.domain.ids import RunId
from gpunion.ports.vault import VaultUnavailable
from tests.builders import a_guest
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import saved_guest, ship
from tests.unit.agent.values import RUN, a_checkpoint

ASKED = a_guest(RUN, saving=Saving(checkpoint_id=a_checkpoint(1), final=False, rate_bps=0.0))
WRITTEN = replace(
    ASKED,
    saving=Saving(checkpoint_id=a_checkpoint(1), final=False, rate_bps=0.0, saved=True, saved_s=1000.0),
)


def a_note(stage: SaveStage, for_s: float | None, **changes: int) -> SaveNote:
    return SaveNote(run_id=RUN, checkpoint_id=a_checkpoint(1), stage=stage.value, for_s=for_s, **changes)


async def test_a_save_is_followed_from_the_asking_until_it_is_sent(fake: FakeWorld) -> None:
    saves, now_s = fake.world.saves, 1004.0
    assert saves.notes([ASKED, a_guest("other-e1")], now_s) == (a_note(SaveStage.ASKED, None),)
    fake.vault.gate = threading.Event()
    hands = await saved_guest(fake)
    assert saves.note_of(WRITTEN, now_s) == a_note(SaveStage.WRITTEN, 4.0)
    hands.ship(ship())
    sending = a_note(SaveStage.SENDING, 4.0, done_bytes=0, total_bytes=2048)
    await until(lambda: saves.note_of(WRITTEN, now_s) == sending)
    fake.vault.gate.set()
    await until(lambda: fake.posted)
    assert saves.note_of(WRITTEN, now_s) == a_note(SaveStage.WRITTEN, 4.0)  # until the engine has heard of it


async def test_one_that_did_not_get_out_waits_to_be_sent(fake: FakeWorld) -> None:
    fake.vault.ship_fault = VaultUnavailable("away")
    hands = await saved_guest(fake)
    hands.ship(ship())
    await until(lambda: fake.posted)
    assert fake.world.saves.note_of(WRITTEN, 1004.0) == a_note(SaveStage.WRITTEN, 4.0)


def test_what_is_said_of_an_earlier_save_is_not_said_of_this_one(fake: FakeWorld) -> None:
    saves = fake.world.saves
    saves.say(RUN, a_checkpoint(2), SaveStage.DUMPING)
    assert saves.note_of(ASKED, 1004.0) == a_note(SaveStage.ASKED, None)
    saves.say(RUN, a_checkpoint(1), SaveStage.DUMPING)
    saves.clear(RUN, a_checkpoint(2))  # ended late
    saves.clear(RunId("other-e1"), a_checkpoint(1))
    assert saves.note_of(ASKED, 1004.0) == a_note(SaveStage.DUMPING, None)
