"""How far a save is: as the engine knows of it, and as the hands say meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gpunion.agent.checkpoints import shipping
from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.guest import GuestPhase, Saving
from gpunion.domain.protocol.frames import Finishing, SaveNote, SaveStage
from gpunion.vault.manifest import VaultUnavailable
from tests.builders import a_guest
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import saved_guest, ship, started
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


OVER = a_guest(RUN, phase=GuestPhase.SHIPPING)
OUTPUT = CheckpointId(f"{RUN}-output")


async def test_of_an_output_it_is_said_that_the_program_is_over_and_what_keeps_it_from_being_taken(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "OUTPUT_WAIT_S", 0.001)
    saves = fake.world.saves
    assert saves.finishing([ASKED, replace(WRITTEN, phase=GuestPhase.SHIPPING)]) == ()
    assert saves.finishing([OVER]) == (Finishing(run_id=RUN),)
    hands = await started(fake)
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.ship_fault, fake.vault.gate = VaultUnavailable("away"), threading.Event()
    hands.ship_output(7)
    away = Finishing(run_id=RUN, trouble="vault_unavailable", detail="away")
    await until(lambda: saves.finishing([OVER]) == (away,))
    fake.vault.gate.set()
    await until(lambda: fake.posted)
    assert saves.finishing([OVER]) == (Finishing(run_id=RUN),)  # until the engine has heard of it


def test_a_place_that_takes_part_of_an_output_may_still_be_full(fake: FakeWorld) -> None:
    saves = fake.world.saves
    saves.not_taken(RUN, OUTPUT, "vault_full", "no space left")
    saves.sending(RUN, OUTPUT)(512, 1024)
    assert saves.finishing([OVER]) == (Finishing(run_id=RUN, trouble="vault_full", detail="no space left"),)
