"""What a job made and no place took stays on its machine, is told of, and is sent when there is room."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.agent.checkpoints import shipping
from gpunion.agent.checkpoints import unsent_outputs as unsent
from gpunion.agent.checkpoints.shipping import Cancelled
from gpunion.agent.checkpoints.unsent_outputs import KEPT_FOR_S, UnsentOutputs
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.protocol.events import KeptOutputSent, OutputShipped
from gpunion.vault.manifest import (
    BadManifest,
    CheckpointLabel,
    Manifest,
    OldEpoch,
    ShipCancelled,
    VaultDenied,
    VaultFault,
    VaultUnavailable,
)
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.ship import ship_directory
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.guests import start
from tests.unit.agent.values import JOB, RUN, an_order

NEVER = Cancelled()
AWAY = VaultUnavailable("the vault is gone")


class Shelf(UnsentOutputs):
    """With a clock and a bound of its own."""

    def __init__(self, folder: Path) -> None:
        self.at_s = 0.0
        self.bound: int | None = None
        super().__init__(folder, bound_bytes=lambda: self.bound, unix_s=lambda: self.at_s)


@pytest.fixture
def shelf(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr(shipping, "OUTPUT_PATIENCE_S", 0.0)
    shelf = Shelf(fake.root / "unsent")
    fake.world = replace(fake.world, outputs=shelf)
    return shelf


async def nobody_is_told(_: KeptOutputSent) -> None:
    raise AssertionError("nothing was sent")


async def shipped(fake: FakeWorld, fault: VaultFault | None, seat: Seat | None = None) -> OutputShipped:
    hands = start(fake, replace(an_order(), seat=seat))
    await until(lambda: fake.posted)
    fake.posted.clear()
    (fake.runtime.paths(RUN).output_dir / "weights").write_text("done")
    fake.vault.ship_fault = fault
    hands.ship_output(7)
    await until(lambda: fake.posted)
    (told,) = fake.posted
    assert isinstance(told, OutputShipped)
    return told


async def test_an_output_that_no_place_takes_is_kept_and_sent_once_one_has_room(
    fake: FakeWorld, shelf: Shelf
) -> None:
    told = await shipped(fake, AWAY)
    assert told == OutputShipped(
        run_id=RUN,
        output=None,
        detail="its output could not be saved: the vault is gone",
        kept="1970-01-08 00:00 UTC",
    )
    (kept,) = shelf.all()
    fake.vault.ship_fault = AWAY
    assert shelf.settle(fake.world, kept, NEVER) is None
    assert shelf.all() == [kept]
    assert shelf.shown() == [
        {"run_id": RUN, "size_bytes": 4, "until": told.kept, "folder": str(fake.root / "unsent" / RUN)}
    ]
    fake.run_notes.forget(RUN)
    another = Shelf(fake.root / "unsent")  # of the next agent, after a restart
    written, heard = asyncio.Event(), []

    async def tell(sent: KeptOutputSent) -> None:
        heard.append(sent)
        await written.wait()

    sending = asyncio.create_task(another.run(fake.world, lambda: True, tell))
    await until(lambda: heard)
    assert shelf.all() == [kept]  # until what is told of it is on the disk
    written.set()
    await until(lambda: not shelf.all())
    sending.cancel()
    output = CheckpointId(f"{RUN}-output")
    assert heard == [KeptOutputSent(run_id=RUN, job_id=JOB, epoch=1, output=output)]
    assert fake.vault.trees[output] == {"weights": "done"}


async def test_nothing_is_sent_before_the_end_of_its_run_is_told(
    fake: FakeWorld, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent, "AGAIN_S", 0.0)
    await shipped(fake, AWAY)
    rounds, heard = 0, []

    def lending() -> bool:
        nonlocal rounds
        rounds += 1
        return True

    async def tell(sent: KeptOutputSent) -> None:
        heard.append(sent)

    sending = asyncio.create_task(shelf.run(fake.world, lending, tell))
    await until(lambda: rounds > 2 or heard)
    assert heard == []  # the campus takes no output of a run that is not over, and it would be gone here
    fake.run_notes.forget(RUN)
    await until(lambda: heard)
    sending.cancel()


async def test_after_a_restart_it_is_told_again_that_it_is_kept(fake: FakeWorld, shelf: Shelf) -> None:
    first = await shipped(fake, AWAY)
    note = fake.run_notes.get(RUN)
    assert note is not None
    again = shipping.ship_output(fake.world, note, 7, None, NEVER)
    assert (again.output, again.kept) == (None, first.kept)


@pytest.mark.parametrize("fault", [OldEpoch("a newer run has begun"), BadManifest("no such name")])
async def test_what_can_never_arrive_goes(fake: FakeWorld, shelf: Shelf, fault: VaultFault) -> None:
    await shipped(fake, AWAY)
    fake.vault.ship_fault = fault
    shelf.settle(fake.world, shelf.all()[0], NEVER)
    assert shelf.all() == []


async def test_a_vault_whose_record_of_the_job_is_damaged_gets_it_once_that_is_mended(
    fake: FakeWorld, shelf: Shelf
) -> None:
    vault = DirectoryVault(fake.root / "place")
    vault.begin(JOB, 1)
    (fake.root / "place" / "jobs" / JOB / "epoch.json").write_bytes(b"")

    def ship(directory: Path, label: CheckpointLabel, **_: object) -> Manifest:
        return ship_directory(vault, directory, label)

    fake.world = replace(fake.world, ship=ship)
    told = await shipped(fake, None)
    assert (told.hopeless, told.kept) == (False, "1970-01-08 00:00 UTC")
    (kept,) = shelf.all()
    assert shelf.settle(fake.world, kept, NEVER) is None
    assert shelf.all() == [kept]
    DirectoryCaretaker(fake.root / "place").repair(None, None, lambda *_: None)
    assert shelf.settle(fake.world, kept, NEVER) is not None
    assert [manifest.checkpoint_id for manifest in vault.manifests(JOB)] == [f"{RUN}-output"]


async def test_a_place_that_refuses_this_machine_may_be_mended_within_its_week(
    fake: FakeWorld, shelf: Shelf
) -> None:
    await shipped(fake, AWAY)
    fake.vault.ship_fault = VaultDenied("the secret key has expired")
    assert shelf.settle(fake.world, shelf.all()[0], NEVER) is None
    assert len(shelf.all()) == 1


async def test_its_time_here_is_bounded_also_while_its_owner_has_the_machine(
    fake: FakeWorld, shelf: Shelf
) -> None:
    await shipped(fake, AWAY)
    shelf.at_s = KEPT_FOR_S
    watching = asyncio.create_task(shelf.run(fake.world, lambda: False, nobody_is_told))
    await until(lambda: not shelf.all())
    watching.cancel()


async def test_one_whose_note_cannot_be_read_any_more_goes_when_the_others_do(
    fake: FakeWorld, shelf: Shelf
) -> None:
    await shipped(fake, AWAY)
    folder = fake.root / "unsent" / RUN
    (folder / "note.json").write_bytes(b"\xff")
    kept_s = folder.stat().st_mtime
    for at_s, there in ((kept_s + KEPT_FOR_S - 1.0, True), (kept_s + KEPT_FOR_S, False)):
        shelf.at_s = at_s
        shelf.sweep()
        assert folder.exists() is there


async def test_one_that_the_disk_does_not_give_back_hides_no_other_and_costs_the_owner_no_answer(
    fake: FakeWorld, shelf: Shelf
) -> None:
    await shipped(fake, AWAY)
    (fake.root / "unsent" / "sick" / "note.json").mkdir(parents=True)  # opening it is an OSError
    (fake.root / "unsent" / "sick" / "output").mkdir()
    assert [one["run_id"] for one in shelf.shown()] == [RUN]
    assert Shelf(Path("x" * 300)).shown() == []  # and so is looking for this


async def test_an_agent_that_died_while_it_kept_one_keeps_it_the_next_time(
    fake: FakeWorld, shelf: Shelf
) -> None:
    halfway = fake.root / "unsent" / RUN
    halfway.mkdir(parents=True)
    (halfway / "note.json").write_text("{}")
    told = await shipped(fake, AWAY)
    assert told.kept
    (fake.root / "unsent" / "another").mkdir()
    shelf.sweep()
    assert list((fake.root / "unsent").iterdir()) == [halfway]


async def test_an_owner_who_takes_the_machine_back_in_the_middle_of_an_upload_has_their_uplink(
    fake: FakeWorld, shelf: Shelf
) -> None:
    await shipped(fake, AWAY)
    fake.run_notes.forget(RUN)
    lent, cancelled_then = True, []

    def ship(*_: object, cancelled: Callable[[], bool], **__: object) -> Manifest:
        nonlocal lent
        lent = False
        cancelled_then.append(cancelled())
        raise ShipCancelled("no longer wanted")

    world = replace(fake.world, ship=ship)
    sending = asyncio.create_task(shelf.run(world, lambda: lent, nobody_is_told))
    await until(lambda: cancelled_then)
    sending.cancel()
    assert (cancelled_then, len(shelf.all())) == ([True], 1)


async def test_a_fault_with_one_of_them_does_not_end_the_agent(
    fake: FakeWorld, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent, "AGAIN_S", 0.0)
    await shipped(fake, AWAY)
    fake.run_notes.forget(RUN)
    tries = []

    def ship(*_: object, **__: object) -> Manifest:
        tries.append(1)
        raise ValueError("nobody thought of this")

    sending = asyncio.create_task(shelf.run(replace(fake.world, ship=ship), lambda: True, nobody_is_told))
    await until(lambda: len(tries) > 1)
    sending.cancel()
    assert len(shelf.all()) == 1


async def test_what_a_program_left_unchangeable_can_be_removed_all_the_same(
    fake: FakeWorld, shelf: Shelf
) -> None:
    fake.runtime.paths(RUN).output_dir.joinpath("cache", "inner").mkdir(parents=True)
    for folder in ("cache/inner", "cache"):
        fake.runtime.paths(RUN).output_dir.joinpath(folder).chmod(0o555)
    assert (await shipped(fake, AWAY)).kept
    output = shelf.all()[0].folder / "output"
    modes = [output.joinpath(name).stat().st_mode for name in ("cache", "cache/inner")]
    assert all(mode & stat.S_IWUSR for mode in modes)


async def test_no_more_is_kept_than_the_owner_lets_a_guest_write(fake: FakeWorld, shelf: Shelf) -> None:
    shelf.bound = len("done") - 1
    told = await shipped(fake, AWAY)
    assert (told.kept, shelf.all()) == ("", [])
    assert (fake.runtime.paths(RUN).output_dir / "weights").exists()


@pytest.mark.parametrize(
    ("fault", "seat"),
    [(OldEpoch("a newer run has begun"), None), (AWAY, Seat(size=2, rank=1))],
)
async def test_what_nobody_could_send_later_and_a_part_of_a_gang_are_not_kept(
    fake: FakeWorld, shelf: Shelf, fault: VaultFault, seat: Seat | None
) -> None:
    told = await shipped(fake, fault, seat)
    assert (told.kept, shelf.all()) == ("", [])
