"""Terms changed and watched by an agent that runs: through its socket, by the clock, by who is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.link.connection import Connection
from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.caps import Caps
from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.owner import client as owner_client
from gpunion.agent.owner.api import OwnerApi
from gpunion.agent.owner.status import StatusBoard
from gpunion.agent.settings import settings_of
from gpunion.agent.terms.editor import TermsDesk
from gpunion.agent.terms.file import changed
from gpunion.agent.terms.in_force import Found, TermsKeeper
from gpunion.agent.terms.presence import Signs
from gpunion.agent.terms.watch import TermsWatch
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import OwnersTerms
from gpunion.domain.protocol.effects import AgentEffect, LimitGuest, TellNotice
from gpunion.domain.protocol.events import GuestExited, GuestStarted, LeaseRenewed, OrderReceived
from gpunion.domain.protocol.reports import DepartureForetold, NoticeGiven, Report, TermsChanged
from gpunion.domain.resources import GIB
from gpunion.ports.gpus import GpuSight, Look
from tests.builders.calendars import CalendarOfLines
from tests.unit.agent.fakes import FakeWorld, ScriptedDisk
from tests.unit.agent.values import RUN, a_station, an_order

FRIDAY_19H_UTC = 1_773_428_400.0  # 2026-03-13


class FakeGpuWatch:
    """What would be seen of the GPUs."""

    def __init__(self) -> None:
        self.last = Look(at_s=0.0, gpus=(GpuSight(index=0, temperature_c=50.0),))
        self.users: dict[int, tuple[GpuUser, ...]] = {}


class FakeSigns(Signs):
    """Nobody is there unless a test says so."""

    who = typed = ""

    def logged_in(self) -> str:
        return type(self).who

    def typing(self, now_unix_s: float) -> str:
        return type(self).typed


class House:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.fake = FakeWorld(root)
        self.clock = self.fake.clock
        self.wall_s = FRIDAY_19H_UTC
        self.performed: list[AgentEffect] = []
        self.greeted = 0
        self.loop = AgentLoop(
            station=a_station(),
            disk=ScriptedDisk(),
            clock=self.clock,
            perform=self.performed.append,
            committed=lambda *_: None,
        )
        self.keeper = TermsKeeper(
            root, Found(terms=OwnersTerms()), CalendarOfLines(), wall=lambda: self.wall_s
        )
        self.caps = Caps()
        self.gpus = FakeGpuWatch()
        FakeSigns.who = FakeSigns.typed = ""
        self.desk = TermsDesk(
            keeper=self.keeper,
            loop=self.loop,
            in_force=self._nothing,
            greet_again=self._greet,
            caps=self.caps,
            unenforced=("cpu",),
            why_no_park=lambda: "there is no NVIDIA driver here",
            signs=FakeSigns(utmp=root / "utmp", terminals=(f"{root}/tty*",)),
        )
        self.watch = TermsWatch(
            keeper=self.keeper,
            loop=self.loop,
            clock=self.clock,
            gpus=self.gpus,  # type: ignore[arg-type]
            in_force=self._nothing,
            file_changed=self.desk.look,
            signs=FakeSigns(),
            wall=lambda: self.wall_s,
        )
        table = {"coordinator": "http://campus.example", "node_id": "a1", "vault": "vault", "lab": "alpha"}
        connection = Connection(loop=self.loop, link=self.fake.link, clock=self.clock, progress=lambda: ())
        board = StatusBoard(
            settings=settings_of(table, root, {}),
            world=self.fake.world,
            loop=self.loop,
            connection=connection,
            terms=self.desk,
            times=self.watch,
        )
        self.api = OwnerApi(
            state_dir=root, loop=self.loop, board=board, in_force=self._nothing, desk=self.desk
        )

    async def says(self, call: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
        return await asyncio.to_thread(call, self.root, *given)

    async def sets(self, **changes: str) -> dict[str, Any]:
        named = {name.replace("__", "."): value for name, value in changes.items()}
        return await self.says(owner_client.change_terms, named)

    async def later(self, seconds: float) -> str:
        """Both clocks go on; one look. Who has the machine then."""
        self.clock.at_s += seconds
        self.wall_s += seconds
        await self.desk.look()
        await self.watch.look()
        return self.loop.station.engine.state.holding.owner_state.value

    def comes(self) -> None:
        station = self.loop.station
        now_s = self.clock.at_s
        for event, seq in (
            (LeaseRenewed(until_s=now_s + 10.0), None),
            (OrderReceived(order=an_order(lab="students", user="sam")), 1),
            (GuestStarted(run_id=RUN, restored=None, resumed_step=3, restore_s=0.0), None),
        ):
            station.committed(station.decide(now_s, event, seq))

    def told(self, kind: type[Report]) -> list[Report]:
        return [r for r in self.loop.station.reports.waiting.values() if isinstance(r, kind)]

    async def _nothing(self) -> None:
        return

    def _greet(self) -> None:
        self.greeted += 1


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    await house.api.open()
    running = asyncio.create_task(house.loop.run())
    yield house
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    house.api.close()


async def test_a_change_counts_at_once_is_told_and_outlives_the_agent(house: House) -> None:
    answer = await house.sets(notice="90s", caps__disk="2GiB", hours="Mon-Sun")
    assert answer["message"] == "In force from now on: notice=90s; hours=Mon-Sun; caps.disk=2GiB."
    assert house.loop.station.facts.terms.notice_s == 90.0
    assert house.caps.disk_bytes == 2 * GIB
    told = house.told(TermsChanged)[0]
    assert isinstance(told, TermsChanged)
    assert told.said == "notice=90s; hours; caps.disk"
    shown = (await house.says(owner_client.status))["status"]["terms"]
    assert shown["values"]["notice"] == "90s"
    assert shown["lent_now"] is True
    again = TermsKeeper(house.root, Found(terms=OwnersTerms()), CalendarOfLines())
    again._mark = None  # as an agent that starts: it has not looked yet
    assert again.look() == house.keeper.terms
    assert (await house.sets(notice="90s"))["message"] == "Your terms are as they were."


async def test_who_took_the_machine_themselves_lends_it_by_their_word_outside_the_hours_too(
    house: House,
) -> None:
    await house.says(owner_client.reclaim, 0.0)
    await house.sets(hours="Mon-Tue 03:00-03:30")
    assert await house.later(1.0) == "reclaimed"
    said = (await house.says(owner_client.resume))["message"]
    assert said.startswith("This machine is shared again. By your hours it would not be (it is not lent")
    assert [await house.later(1.0) for _ in range(3)] == ["sharing"] * 3
    await house.sets(hours="Mon-Sun")
    assert (await house.says(owner_client.resume))["message"] == "This machine is shared again."


async def test_impossible_terms_are_refused_and_the_old_ones_stay(house: House) -> None:
    await house.sets(notice="90s")
    for changes, said in (
        ({"notice": "1s", "caps.vram": "lots"}, "caps.vram: 'lots' is no amount"),
        ({"yield.gpus": "7"}, "this machine has no GPU 7; it has: 0"),
        ({"allow_unsandboxed": "yes"}, "cannot be changed while the agent runs"),
        ({"calendar": "/nowhere.ics"}, "calendar: /nowhere.ics: No such file"),
    ):
        with pytest.raises(owner_client.Refused, match="Nothing was changed") as refused:
            await house.says(owner_client.change_terms, changes)
        assert said in str(refused.value)
    with pytest.raises(owner_client.Refused, match="not TOML"):
        await house.says(owner_client.replace_terms, "notice = = 3")
    assert house.keeper.terms == changed(OwnersTerms(), {"notice": "90s"})
    assert "notice = " in house.keeper.path.read_text()
    await house.says(owner_client.replace_terms, 'notice = "5s"  # mine\n')
    assert house.keeper.path.read_text() == 'notice = "5s"  # mine\n'


async def test_a_file_edited_by_hand_counts_and_a_bad_one_is_shown(house: House) -> None:
    await house.sets(notice="90s")
    house.keeper.path.write_text('notice = "7s"\n[deny]\nlabs = ["students"]\n')
    house.comes()
    await house.later(1.0)
    assert house.loop.station.engine.state.guests[RUN].leave_why.endswith("lab 'students'")
    reasons = [effect.reason for effect in house.performed if isinstance(effect, TellNotice)]
    assert reasons == ["its owner no longer admits guests of lab 'students'"]
    assert any(isinstance(effect, LimitGuest) and effect.kill_at_s for effect in house.performed)
    house.keeper.path.write_text("notise = 1\n")
    await house.later(1.0)
    shown = (await house.says(owner_client.status))["status"]
    assert "did you mean 'notice'?" in shown["terms"]["trouble"]
    assert shown["guests"][0]["leaves_because"].endswith("lab 'students'")
    assert house.keeper.terms.terms.notice_s == 7.0
    house.keeper.path.write_text("[yield]\ngpus = [5]\n")
    await house.later(1.0)
    assert "no GPU 5" in house.keeper.trouble


async def test_more_time_alone_asks_for_a_new_handshake(house: House) -> None:
    await house.sets(autonomy="60s")
    await house.sets(autonomy="30s")
    assert house.greeted == 1


async def test_the_machine_is_lent_by_the_hours_and_the_notice_ends_with_them(house: House) -> None:
    house.comes()
    await house.sets(hours="Mon-Fri 18:00-21:00", timezone="UTC", notice="60s")
    assert await house.later(0.0) == "sharing"
    (foretold,) = house.told(DepartureForetold)
    assert foretold == DepartureForetold(at_s=house.clock.at_s + 7200.0)
    assert await house.later(7139.0) == "sharing"
    assert await house.later(1.0) == "reclaiming"
    assert house.loop.station.engine.state.holding.deadline_s == pytest.approx(house.clock.at_s + 60.0)
    notice = next(effect for effect in reversed(house.performed) if isinstance(effect, TellNotice))
    assert notice.reason == "it is lent until Fri 21:00"
    gone = GuestExited(run_id=RUN, exit_code=None, last_step=5, cause=EndReason.DEADLINE)
    await house.loop.owner_said(gone)
    assert await house.later(61.0) == "reclaimed"
    assert house.told(DepartureForetold)[-1] == DepartureForetold(
        at_s=None, because="it is not lent at this hour, again from Mon 18:00"
    )
    status = (await house.says(owner_client.status))["status"]
    assert status["terms"]["changes_at"] == "Mon 18:00"
    await house.says(owner_client.resume)  # the owner lends it all the same
    assert await house.later(1.0) == "sharing"
    assert house.watch.lent_in_spite
    assert house.told(DepartureForetold)[-1] == DepartureForetold(at_s=None)
    assert await house.later(3 * 86400.0 - 3 * 3600.0) == "sharing"
    assert not house.watch.lent_in_spite
    assert await house.later(3 * 3600.0) == "reclaimed"


async def test_new_hours_count_more_than_an_earlier_word_to_lend_in_spite_of_the_old_ones(
    house: House,
) -> None:
    await house.sets(hours="Sat 03:00-04:00", timezone="UTC")
    assert await house.later(1.0) == "reclaimed"
    await house.says(owner_client.resume)
    assert await house.later(1.0) == "sharing"
    await house.sets(notice="30s")
    assert await house.later(1.0) == "sharing"
    await house.sets(hours="Sun 03:00-04:00")
    assert await house.later(1.0) == "reclaimed"


async def test_what_is_foretold_is_told_again_after_every_greeting(house: House) -> None:
    await house.sets(hours="Mon-Fri 18:00-21:00", timezone="UTC")
    await house.later(1.0)
    for greeting in (1, 2):
        house.loop.station.hello(house.clock.at_s)
        house.loop.station.connected = True
        await house.later(1.0)
        await house.later(1.0)
        assert len(house.told(DepartureForetold)) == 1 + greeting


async def test_a_clock_that_is_set_moves_what_is_to_come(house: House) -> None:
    await house.sets(hours="Mon-Fri 18:00-21:00", timezone="UTC")
    await house.later(1.0)
    house.wall_s += 3600.0
    await house.later(1.0)
    told = [report.at_s for report in house.told(DepartureForetold) if isinstance(report, DepartureForetold)]
    assert told[0] is not None
    assert told[1] == pytest.approx(told[0] - 3600.0, abs=1.5)
    house.wall_s += 6 * 3600.0
    assert await house.later(1.0) == "reclaimed"
    house.wall_s -= 6 * 3600.0
    assert await house.later(1.0) == "sharing"


async def test_somebody_at_the_machine_has_it_until_it_is_quiet(house: House) -> None:
    await house.sets(yield__login="yes", yield__keyboard="yes", yield__quiet="60s", yield__notice="5s")
    assert await house.later(1.0) == "sharing"
    FakeSigns.who = "kim on tty1"
    assert await house.later(1.0) == "reclaimed"
    assert (await house.says(owner_client.status))["status"]["because"] == "somebody is logged in"
    FakeSigns.who, FakeSigns.typed = "", "pts/3"
    assert await house.later(59.0) == "reclaimed"
    FakeSigns.typed = ""
    assert await house.later(59.0) == "reclaimed"
    assert await house.later(2.0) == "sharing"


@pytest.mark.parametrize("gpus", ["", "0"])
async def test_the_campus_hears_that_somebody_is_at_the_machine_and_never_who_or_where(
    house: House, gpus: str
) -> None:
    await house.sets(yield__login="yes", yield__keyboard="yes", yield__gpus=gpus)
    for FakeSigns.who, FakeSigns.typed in (("kim on tty1", ""), ("", "pts/3")):
        await house.later(1.0)
        reports = repr(house.told(NoticeGiven))
        assert "somebody" in reports
        assert "kim" not in reports
        assert "pts" not in reports
        FakeSigns.who = FakeSigns.typed = ""
        await house.later(601.0)


async def test_then_only_the_gpus_that_were_named(house: House) -> None:
    await house.sets(yield__keyboard="yes", yield__gpus="0")
    FakeSigns.typed = "tty2"
    assert await house.later(1.0) == "sharing"
    (gpu,) = house.loop.station.engine.state.holding.gpus
    assert gpu.because() == "GPU 0: somebody types"
    FakeSigns.typed = ""
    await house.later(601.0)
    assert house.loop.station.engine.state.holding.gpus == ()


async def test_a_hot_gpu_is_withheld_until_it_is_cool(house: House) -> None:
    await house.sets(caps__temperature="80")
    for degrees, withheld in ((85.0, False), (85.0, True), (79.0, True), (70.0, True)):
        house.gpus.last = Look(at_s=0.0, gpus=(GpuSight(index=0, temperature_c=degrees),))
        await house.later(1.0)
        assert bool(house.loop.station.engine.state.holding.gpus) is withheld
    await house.later(60.0)
    assert house.loop.station.engine.state.holding.gpus == ()


async def test_a_guest_that_takes_more_memory_of_a_gpu_than_is_lent_has_to_go(house: House) -> None:
    house.comes()
    await house.sets(caps__vram="4GiB")
    house.gpus.users = {0: (GpuUser(pid=1, name="python", memory_bytes=5 * GIB, run_id=RUN),)}
    await house.later(1.0)
    await house.later(1.0)
    assert house.loop.station.engine.state.guests[RUN].leave_why == "it took 5.0 GiB of GPU 0, 4.0 are lent"


async def test_what_nothing_can_hold_guests_to_is_said(house: House) -> None:
    await house.sets(
        caps__temperature="80", caps__vram="4GiB", caps__cpus="2", caps__memory="8GiB", park="yes",
        caps__network="1Gbit", yield__login="yes", yield__keyboard="yes",
    )  # fmt: skip
    status = (await house.says(owner_client.status))["status"]
    named = [line.partition(":")[0] for line in status["terms"]["not_enforced"]]
    assert named == [
        "yield.login", "yield.keyboard", "caps.temperature", "caps.vram", "caps.cpus", "park", "caps.network",
    ]  # fmt: skip
    assert "there is no NVIDIA driver here" in status["terms"]["not_enforced"][-2]


async def test_going_when_it_is_safe_has_the_limit_of_the_terms(house: House) -> None:
    house.comes()
    await house.sets(when_safe="20m")
    answer = await house.says(owner_client.reclaim_when_safe)
    assert "as soon as what it did is saved; the machine is yours in 20 min at most" in answer["message"]
    assert house.loop.station.engine.state.holding.when_safe
    with pytest.raises(owner_client.Refused, match="between 0 s and 7 d"):
        await house.says(owner_client.reclaim_when_safe, 1e9)
