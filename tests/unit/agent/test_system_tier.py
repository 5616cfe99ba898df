"""Saving a guest whole and bringing it back, seen from the agent's hands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.checkpoints.whole_guest import (
    DUMP_LIMIT_S,
    DUMP_PART,
    NOTICE_SHARE,
    PARKED_DUMP_LIMIT_S,
    dump_place,
)
from gpunion.agent.guests.controller import GuestHands
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.session import SessionKind, SessionStart
from gpunion.domain.protocol.effects import AskToSave, DumpParked, ShipCheckpoint, StartGuest
from gpunion.domain.protocol.events import (
    CheckpointNotShipped,
    CheckpointShipped,
    GuestExited,
    GuestNotDumped,
    GuestSaved,
    GuestStarted,
    GuestStartFailed,
)
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import SystemAbility, Tier
from gpunion.ports.checkpointer import DumpRefused, RestoreRefused
from gpunion.ports.runtime import GuestSpec
from gpunion.vault.manifest import Manifest, VaultFull, VaultUnavailable
from tests.builders.memory_vault import a_manifest
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.values import RUN, a_checkpoint, an_order

ORDER = an_order(tier=Tier.SYSTEM)
C1 = a_checkpoint(1)


class FakeCheckpointer:
    """Dumps a word; `trouble` is why not. `gate` lets a dump take as long as a test wants."""

    def __init__(self, fake: FakeWorld) -> None:
        self._fake = fake
        self.trouble: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def ability(self) -> SystemAbility:
        return SystemAbility(able=True, why_not="", kind="any")

    async def dump(self, run_id: str, into: Path, *, limit_s: float, parked: bool = False) -> None:
        self._fake.journal.append(f"dump {run_id} {limit_s:g}{' parked' if parked else ''}")
        await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        into.mkdir(parents=True)
        (into / "pages").write_text("all of it")

    async def release(self, run_id: str) -> None:
        self._fake.journal.append(f"release {run_id}")

    async def restore(self, spec: GuestSpec, dump: Path) -> None:
        if self.trouble is not None:
            raise self.trouble
        self._fake.journal.append(f"bring back {spec.run_id} from {(dump / 'pages').read_text()}")
        self._fake.runtime.put(spec.run_id, spec.job_id, spec.epoch, alive=True)


class Whole(FakeWorld):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.checkpointer = FakeCheckpointer(self)
        self.world = replace(self.world, checkpointer=self.checkpointer)


@pytest.fixture
async def fake(tmp_path: Path) -> Whole:
    return Whole(tmp_path)


def ask(*, final: bool = False, by_s: float | None = None) -> AskToSave:
    return AskToSave(run_id=RUN, checkpoint_id=C1, final=final, by_s=by_s)


async def started(fake: FakeWorld) -> GuestHands:
    hands = GuestHands(fake.world, RUN)
    hands.start(StartGuest(order=ORDER, lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    fake.posted.clear()
    fake.journal.clear()
    return hands


async def test_a_periodic_save_dumps_it_whole_and_lets_it_go_on(fake: Whole) -> None:
    hands = await started(fake)
    (fake.runtime.paths(RUN).scratch_dir / "open").write_text("half written")
    hands.ask_to_save(ask())
    await until(lambda: fake.of(GuestSaved))
    assert fake.journal == [f"dump {RUN} {DUMP_LIMIT_S:g}", f"release {RUN}"]
    assert fake.posted == [
        GuestSaved(run_id=RUN, checkpoint_id=C1, step=0, progress=0.0, stall_s=0.0, tier=Tier.SYSTEM)
    ]
    place = dump_place(fake.world, RUN, C1)
    assert (place / "scratch" / "open").read_text() == "half written"
    assert (place / DUMP_PART / "pages").exists()


async def test_a_last_save_holds_it_still_for_its_end_and_leaves_time_to_send_it(fake: Whole) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(final=True, by_s=1040.0))
    await until(lambda: fake.of(GuestSaved))
    assert fake.journal == [f"dump {RUN} {NOTICE_SHARE * 40:g}"]
    hands.kill(EndReason.SAVED)
    await until(lambda: fake.of(GuestExited))
    assert f"release {RUN}" not in fake.journal


async def test_no_time_left_is_no_time_for_a_dump(fake: Whole) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(final=True, by_s=999.0))
    await until(lambda: fake.of(GuestNotDumped))
    assert fake.journal[:1] != [f"dump {RUN} 0"]


async def test_one_that_cannot_be_dumped_is_asked_to_save_itself_and_why_is_told(fake: Whole) -> None:
    fake.checkpointer.trouble = DumpRefused("it took too long")
    hands = await started(fake)
    hands.ask_to_save(ask())
    await until(lambda: fake.of(GuestNotDumped))
    assert fake.posted == [GuestNotDumped(run_id=RUN, checkpoint_id=C1, why="it took too long")]
    paths = fake.runtime.paths(RUN)
    await until(lambda: fake.world.control.read_json(paths.control_dir, "request.json") is not None)
    fake.world.control.write_json(paths.control_dir, "saved.json", {"id": C1, "step": 4, "progress": 0.1})
    await until(lambda: fake.of(GuestSaved))
    (saved,) = fake.of(GuestSaved)
    assert isinstance(saved, GuestSaved)
    assert (saved.tier, saved.step) == (Tier.APP, 4)


async def test_a_dump_that_is_no_longer_wanted_is_ended_and_undone(fake: Whole) -> None:
    hands = await started(fake)
    fake.checkpointer.gate.clear()
    hands.ask_to_save(ask())
    await until(lambda: bool(fake.journal))
    hands.ask_to_save(AskToSave(run_id=RUN, checkpoint_id=a_checkpoint(2), final=True, by_s=None))
    fake.checkpointer.gate.set()
    await until(lambda: fake.of(GuestSaved))
    (saved,) = fake.of(GuestSaved)
    assert isinstance(saved, GuestSaved)
    assert saved.checkpoint_id == a_checkpoint(2)
    assert not dump_place(fake.world, RUN, C1).exists()
    # The first was let go of before the second began: at no time two dumps of one guest.
    assert fake.journal.index(f"release {RUN}") < len(fake.journal) - 1


async def test_a_parked_guest_is_dumped_as_it_stands_and_its_end_does_not_wait_for_it_to_leave(
    fake: Whole,
) -> None:
    hands = GuestHands(fake.world, RUN)
    hands.start(StartGuest(order=an_order(), lease_until_s=1010.0))  # saved by its program, as most are
    await until(lambda: fake.of(GuestStarted))
    fake.posted.clear()
    fake.journal.clear()
    (fake.runtime.paths(RUN).scratch_dir / "open").write_text("half written")
    effect = DumpParked(run_id=RUN, checkpoint_id=C1, by_s=1040.0)
    hands.dump_parked(effect)
    hands.dump_parked(effect)  # said again: it is under way
    await until(lambda: fake.of(GuestSaved))
    assert fake.journal == [f"dump {RUN} {NOTICE_SHARE * 40:g} parked"]
    (saved,) = fake.posted
    assert isinstance(saved, GuestSaved)
    assert (saved.tier, saved.stall_s) == (Tier.SYSTEM, 0.0)  # it stood still anyway
    assert saved.size_bytes == len("all of it" + "half written")
    hands.kill(EndReason.SAVED)
    await until(lambda: fake.of(GuestExited))
    assert f"release {RUN}" not in fake.journal


@pytest.mark.parametrize(
    ("trouble", "why"),
    [(DumpRefused("a socket is open"), "a socket is open"), (OSError(28, "full"), "a fault")],
)
async def test_a_parked_guest_that_cannot_be_dumped_is_not_asked_to_save_itself(
    fake: Whole, trouble: Exception, why: str
) -> None:
    hands = await started(fake)
    fake.checkpointer.trouble = trouble
    hands.dump_parked(DumpParked(run_id=RUN, checkpoint_id=C1, by_s=1000.0 + 4 * PARKED_DUMP_LIMIT_S))
    await until(lambda: fake.of(GuestNotDumped))
    assert fake.journal == [f"dump {RUN} {PARKED_DUMP_LIMIT_S:g} parked"]
    (told,) = fake.posted
    assert isinstance(told, GuestNotDumped)
    assert why in told.why
    control_dir = fake.runtime.paths(RUN).control_dir
    assert fake.world.control.read_json(control_dir, "request.json") is None


async def test_a_dump_is_shipped_as_what_it_is_and_kept_until_it_is_durable(fake: Whole) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask())
    await until(lambda: fake.of(GuestSaved))
    effect = ShipCheckpoint(
        run_id=RUN, checkpoint_id=C1, step=1, progress=0.0, rate_bps=0.0, tier=Tier.SYSTEM
    )
    fake.vault.ship_fault = VaultUnavailable("away for a moment")
    hands.ship(effect)
    await until(lambda: fake.of(CheckpointNotShipped))
    assert dump_place(fake.world, RUN, C1).exists()
    hands.ship(effect)
    await until(lambda: fake.of(CheckpointShipped))
    assert fake.vault.sealed[-1].tier == Tier.SYSTEM
    assert not dump_place(fake.world, RUN, C1).exists()
    fake.posted.clear()
    hands.ship(effect)  # again, and it is gone
    await until(lambda: fake.of(CheckpointNotShipped))
    (lost,) = fake.of(CheckpointNotShipped)
    assert isinstance(lost, CheckpointNotShipped)
    assert lost.trouble is CheckpointTrouble.TORN


async def test_room_for_a_dump_is_not_made_of_what_its_job_might_go_back_to(
    fake: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    monkeypatch.setattr(fake.vault, "forget", lambda job_id, keep: kept.append(keep))
    hands = await started(fake)
    hands.ask_to_save(ask())
    await until(lambda: fake.of(GuestSaved))
    fake.vault.sealed = [a_manifest(f"c{number}", number) for number in (2, 3, 4, 5, 6)]
    fake.vault.ship_fault = VaultFull("no space left")
    effect = ShipCheckpoint(
        run_id=RUN,
        checkpoint_id=C1,
        step=7,
        progress=0.0,
        rate_bps=0.0,
        tier=Tier.SYSTEM,
        keep=CheckpointId("c2"),
    )
    hands.ship(effect)
    await until(lambda: fake.of(CheckpointShipped))
    assert kept == [5, 6]  # before it was sent, and after


def whole_manifest(fake: Whole) -> Manifest:
    fake.vault.sealed = [a_manifest("c1", 3), a_manifest("c2", 7, tier=Tier.SYSTEM)]
    fake.vault.trees["c2"] = {
        "dump/pages": "all of it",
        "scratch/open": "half written",
        "control/request.json": "{}",
        "output/book": "1 2 3",
    }
    return fake.vault.sealed[-1]


def bring_back(fake: Whole, tier: Tier = Tier.SYSTEM) -> None:
    order = an_order(tier=tier, restore=None if tier is Tier.APP else CheckpointId("c2"), restore_step=0)
    GuestHands(fake.world, RUN).start(StartGuest(order=order, lease_until_s=1010.0))


async def test_a_run_whose_newest_checkpoint_is_whole_is_brought_back_from_it(fake: Whole) -> None:
    whole_manifest(fake)
    bring_back(fake)
    await until(lambda: fake.of(GuestStarted))
    assert f"start {RUN}" not in fake.journal
    assert f"bring back {RUN} from all of it" in fake.journal
    assert fake.posted == [
        GuestStarted(run_id=RUN, restored=CheckpointId("c2"), resumed_step=7, restore_s=0.0, tier=Tier.SYSTEM)
    ]
    paths = fake.runtime.paths(RUN)
    assert (paths.scratch_dir / "open").read_text() == "half written"
    assert (paths.output_dir / "book").read_text() == "1 2 3"
    assert not (paths.control_dir / "request.json").exists()


async def test_a_job_that_saves_itself_is_brought_back_whole_where_its_order_says_so(fake: Whole) -> None:
    whole_manifest(fake)
    fake.vault.trees["c2"] |= {"control/aside.json": "{}", "control/stepped-aside.json": '{"done": true}'}
    order = an_order(restore=CheckpointId("c2"), restore_step=7, whole=True)
    GuestHands(fake.world, RUN).start(StartGuest(order=order, lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    assert f"bring back {RUN} from all of it" in fake.journal
    control_dir = fake.runtime.paths(RUN).control_dir
    # Nobody asks for its GPU here; that it has not come back yet is its own to take back.
    assert not (control_dir / "aside.json").exists()
    assert (control_dir / "stepped-aside.json").exists()


async def test_a_dump_that_does_not_come_to_life_here_is_refused_and_not_the_job_s_fault(fake: Whole) -> None:
    whole_manifest(fake)
    fake.checkpointer.trouble = RestoreRefused("CRIU: bad size")
    bring_back(fake)
    await until(lambda: fake.of(GuestStartFailed))
    assert fake.posted == [GuestStartFailed(run_id=RUN, detail="CRIU: bad size", why=Why.DUMP_REFUSED_THERE)]


async def test_a_machine_that_cannot_dump_refuses_one(fake: Whole) -> None:
    whole_manifest(fake)
    fake.world = replace(fake.world, checkpointer=None)
    bring_back(fake)
    await until(lambda: fake.of(GuestStartFailed))
    (failed,) = fake.of(GuestStartFailed)
    assert isinstance(failed, GuestStartFailed)
    assert failed.why is Why.DUMP_REFUSED_THERE


async def test_a_job_whose_dumps_were_given_up_goes_on_from_what_its_program_saved(fake: Whole) -> None:
    whole_manifest(fake)
    bring_back(fake, Tier.APP)
    await until(lambda: fake.of(GuestStarted))
    (event,) = fake.of(GuestStarted)
    assert isinstance(event, GuestStarted)
    assert (event.restored, event.tier) == ("c1", Tier.APP)


# --- sessions ---------------------------------------------------------------------------------------

COURSE = SessionStart(kind=SessionKind.NOTEBOOK, name="course", token="c0ffee")


def session_manifest(fake: Whole) -> None:
    whole_manifest(fake)
    fake.vault.trees["c2"] |= {"checkpoint/step-7/notebooks.json": "[]", "scratch/home/x": "of the other"}


async def test_a_session_saves_its_variables_before_it_is_dumped(fake: Whole) -> None:
    hands = GuestHands(fake.world, RUN)
    hands.start(StartGuest(order=an_order(session=COURSE), lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    fake.journal.clear()
    effect = replace(ask(final=True, by_s=1040.0), whole=True)
    hands.ask_to_save(effect)
    control, folder = fake.world.control, fake.runtime.paths(RUN).control_dir
    await until(lambda: control.read_json(folder, "request.json") is not None)
    asked = control.read_json(folder, "request.json")
    assert asked is not None
    assert (asked["final"], asked["id"]) == (False, f"{C1}-before")
    assert not [line for line in fake.journal if line.startswith("dump")]
    control.write_json(folder, "saved.json", {"id": f"{C1}-before", "step": 4, "progress": 0.0})
    await until(lambda: fake.of(GuestSaved))
    (saved,) = fake.of(GuestSaved)
    assert isinstance(saved, GuestSaved)
    assert (saved.checkpoint_id, saved.step, saved.tier) == (C1, 4, Tier.SYSTEM)


async def test_a_session_is_told_that_it_was_brought_back_whole(fake: Whole) -> None:
    session_manifest(fake)
    order = an_order(restore=CheckpointId("c2"), restore_step=7, whole=True, session=COURSE)
    GuestHands(fake.world, RUN).start(StartGuest(order=order, lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    folder = fake.runtime.paths(RUN).control_dir
    assert fake.world.control.read_json(folder, "restored.json") == {"level": "whole"}


async def test_where_a_session_is_not_brought_back_whole_its_variables_are_read(fake: Whole) -> None:
    """Of its dump nothing but what its program saved: its scratch is of the other machine's guest."""
    session_manifest(fake)
    order = an_order(restore=CheckpointId("c2"), restore_step=7, session=COURSE)
    GuestHands(fake.world, RUN).start(StartGuest(order=order, lease_until_s=1010.0))
    await until(lambda: fake.of(GuestStarted))
    (event,) = fake.of(GuestStarted)
    assert isinstance(event, GuestStarted)
    assert (event.restored, event.tier) == ("c2", Tier.APP)
    paths = fake.runtime.paths(RUN)
    assert (paths.checkpoint_dir / "step-7" / "notebooks.json").exists()
    assert (paths.output_dir / "book").read_text() == "1 2 3"
    assert not (paths.scratch_dir / "home" / "x").exists()
