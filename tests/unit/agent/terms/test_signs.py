"""What an agent tells the campus of its owner, and what it does not."""

from __future__ import annotations

import pytest

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.terms.signs import HOLD_S, SignWatch
from gpunion.cli.commands.owner.status import _told_of_you
from gpunion.domain.nodes.signs import Sign, Signs
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.reports import Report, SignsShown
from gpunion.ports.gpus import Look
from tests.unit.agent.test_terms_in_force import FakeSigns, House, house

__all__ = ["house"]  # the fixture


class Watched:
    """A machine whose agent is in touch with the campus, and nobody is there."""

    def __init__(self, of: House) -> None:
        self.house = of
        self.arrived: list[Report] = []
        self.watch = SignWatch(
            keeper=of.keeper,
            loop=of.loop,
            clock=of.clock,
            gpus=of.gpus,  # type: ignore[arg-type]
            presence=FakeSigns(),
            wall=lambda: of.wall_s,
        )
        self.greets()

    def greets(self) -> None:
        station = self.house.loop.station
        station.hello(self.house.clock.at_s)
        station.connected = True

    async def later(self, seconds: float) -> list[Signs | None]:
        """Everything it has told so far."""
        self.house.clock.at_s += seconds
        await self.watch.look()
        self.arrived += self.house.told(SignsShown)
        reports = self.house.loop.station.reports
        reports.acknowledge(reports.last_seq)
        return [report.signs for report in self.arrived if isinstance(report, SignsShown)]


@pytest.fixture
def watched(house: House) -> Watched:
    return Watched(house)


async def test_the_campus_is_told_which_signs_are_shown_and_nothing_else(watched: Watched) -> None:
    assert await watched.later(5.0) == [()]
    FakeSigns.who, FakeSigns.typed = "ada on pts/3", "pts/3"
    watched.house.gpus.users = {0: (GpuUser(pid=7, name="secret", memory_bytes=1, run_id=None),)}
    assert (await watched.later(5.0))[1:] == [(Sign.OWNER_LOGGED_IN, Sign.OWNER_ON_GPU, Sign.KEYBOARD)]
    reports = repr(watched.arrived)
    assert "ada" not in reports
    assert "pts" not in reports
    assert "secret" not in reports


async def test_a_pause_to_think_is_not_told(watched: Watched) -> None:
    FakeSigns.typed = "tty1"
    await watched.later(5.0)
    FakeSigns.typed = ""
    assert await watched.later(HOLD_S - 1.0) == [(Sign.KEYBOARD,)]
    assert await watched.later(2.0) == [(Sign.KEYBOARD,), ()]


async def test_guests_displays_and_a_driver_that_does_not_answer_are_no_sign(watched: Watched) -> None:
    guest = GpuUser(pid=7, name="train", memory_bytes=1, run_id="run")
    display = GpuUser(pid=8, name="Xorg", memory_bytes=1, run_id=None, ignored=True)
    watched.house.gpus.users = {0: (guest, display)}
    assert await watched.later(5.0) == [()]
    watched.house.gpus.users = {0: (GpuUser(pid=9, name="own", memory_bytes=1, run_id=None),)}
    watched.house.gpus.last = Look(at_s=0.0, trouble="the driver does not answer")
    assert await watched.later(5.0) == [()]


async def test_what_is_the_owners_own_rule_is_no_sign(watched: Watched) -> None:
    FakeSigns.who, FakeSigns.typed = "ada on pts/3", "pts/3"
    await watched.house.sets(yield__login="yes", yield__keyboard="yes")
    assert await watched.later(5.0) == [()]


async def test_what_becomes_the_owners_own_rule_is_no_sign_from_then_on(watched: Watched) -> None:
    FakeSigns.typed = "pts/3"
    assert await watched.later(5.0) == [(Sign.KEYBOARD,)]
    FakeSigns.typed = ""
    await watched.house.sets(yield__keyboard="yes")
    assert await watched.later(5.0) == [(Sign.KEYBOARD,), ()]


async def test_an_owner_who_says_so_is_not_told_of(watched: Watched) -> None:
    FakeSigns.typed = "tty1"
    await watched.later(5.0)
    await watched.house.sets(signs="no")
    assert await watched.later(5.0) == [(Sign.KEYBOARD,), None]
    assert watched.watch.shown() == {"tells": False, "told": None}
    watched.greets()
    assert await watched.later(5.0) == [(Sign.KEYBOARD,), None]


async def test_nothing_is_told_while_the_machine_is_its_owners(watched: Watched) -> None:
    await watched.later(5.0)
    await watched.house.loop.owner_said(OwnerReclaimed(notice_s=0.0))
    FakeSigns.typed = "tty1"
    assert await watched.later(5.0) == [(), None]
    await watched.house.loop.owner_said(OwnerResumed())
    assert await watched.later(5.0) == [(), None, (Sign.KEYBOARD,)]


async def test_it_is_told_again_after_every_greeting_and_not_saved_up_in_between(watched: Watched) -> None:
    assert await watched.later(5.0) == [()]
    watched.house.loop.station.disconnected()
    for typed in ("tty1", "", "tty1"):
        FakeSigns.typed = typed
        assert await watched.later(HOLD_S + 1.0) == [()]
    watched.greets()
    assert await watched.later(1.0) == [(), (Sign.KEYBOARD,)]
    watched.greets()
    assert await watched.later(1.0) == [(), (Sign.KEYBOARD,), (Sign.KEYBOARD,)]


async def test_the_owner_sees_what_is_told(watched: Watched) -> None:
    assert _told_of_you(watched.watch.shown()) == []
    await watched.later(5.0)
    (line,) = _told_of_you(watched.watch.shown())
    assert line.startswith("The campus knows of you: nobody is seen here; never who.")
    FakeSigns.typed = "tty1"
    await watched.later(5.0)
    (line,) = _told_of_you(watched.watch.shown())
    assert "somebody types" in line
    assert "gpunion terms set signs=no" in line
