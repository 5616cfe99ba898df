"""A disk that fills up is told while there is time: to the owner, to the campus, once."""

from __future__ import annotations

from pathlib import Path

from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.disk_watch import FULL_BYTES, SHORT_BYTES, DiskWatch, Room, room_on
from gpunion.domain.nodes.node import DiskRoom
from tests.unit.agent.fakes import ManualClock, ScriptedDisk
from tests.unit.agent.values import a_station

FOLDER = Path("/var/lib/gpunion")


def a_watch(rooms: list[Room], told: list[DiskRoom]) -> tuple[DiskWatch, AgentLoop]:
    loop = AgentLoop(
        station=a_station(),
        disk=ScriptedDisk(),
        clock=ManualClock(),
        perform=lambda effect: None,
        committed=lambda commit, took_ms: None,
    )
    watch = DiskWatch(
        folder=FOLDER,
        loop=loop,
        greet_again=lambda: told.append(loop.station.facts.disk),
        look_at=lambda folder: rooms.pop(0),
    )
    return watch, loop


async def test_each_change_of_room_is_told_once_and_not_while_it_swings_about_a_limit() -> None:
    sizes = [SHORT_BYTES, SHORT_BYTES - 1, SHORT_BYTES + 1, FULL_BYTES - 1, FULL_BYTES + 1, 2 * SHORT_BYTES]
    told: list[DiskRoom] = []
    watch, _ = a_watch([Room(free_bytes=size) for size in sizes], told)
    troubles = []
    for _ in sizes:
        await watch.look()
        troubles.append(watch.trouble())
    assert told == [DiskRoom.SHORT, DiskRoom.FULL, DiskRoom.FINE]
    assert troubles[0] == troubles[-1] == ""
    assert "has little room left (1074 MB)" in troubles[1]
    assert f"disk of {FOLDER} is full (67 MB)" in troubles[3]
    assert all("Next: make room" in trouble for trouble in troubles[1:-1])


async def test_a_disk_without_room_for_more_files_is_full_however_large_it_is() -> None:
    told: list[DiskRoom] = []
    watch, _ = a_watch([Room(free_bytes=100 * SHORT_BYTES, files=3)], told)
    await watch.look()
    assert told == [DiskRoom.FULL]
    assert "room for 3 files)" in watch.trouble()


async def test_a_quota_shows_in_what_the_disk_does_not_take() -> None:
    told: list[DiskRoom] = []
    watch, loop = a_watch([Room(free_bytes=100 * SHORT_BYTES)] * 2, told)
    loop.forgettable, loop.no_room = "state.json cannot be written: Disk quota exceeded", True
    await watch.look()
    assert watch.shown()["room"] == "full"
    assert "is full" in watch.trouble()
    loop.forgettable = ""
    await watch.look()
    assert told == [DiskRoom.FULL, DiskRoom.FINE]


async def test_a_disk_that_fails_is_not_said_to_be_full() -> None:
    told: list[DiskRoom] = []
    watch, loop = a_watch([Room(free_bytes=100 * SHORT_BYTES)] * 4, told)
    loop.forgettable, loop.no_room = "state.json cannot be written: Input/output error", False
    await watch.look()
    await watch.look()
    assert (loop.station.facts.disk, loop.station.facts.disk_fails) == (DiskRoom.FULL, True)
    assert watch.shown()["room"] == "failing"
    assert f"disk of {FOLDER} fails (state.json cannot be written: Input/output error)" in watch.trouble()
    assert "is full" not in watch.trouble()
    loop.no_room = True
    await watch.look()
    assert "is full" in watch.trouble()
    loop.forgettable = ""
    await watch.look()
    assert told == [DiskRoom.FULL, DiskRoom.FULL, DiskRoom.FINE]
    assert not loop.station.facts.disk_fails


def test_a_real_disk_says_how_much_is_left(tmp_path: Path) -> None:
    assert room_on(tmp_path).free_bytes > 0
