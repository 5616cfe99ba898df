"""A store damaged at hundreds of places: it opens and names what is held, or refuses in words."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.sql.findings import SET_AGAIN
from gpunion.adapters.sql.owners import timer_subject
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.commit import SavedCampus
from gpunion.domain.protocol.events import CoordinatorStarted
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import BASELINE
from gpunion.ports.database import Credential, StoreBroken
from tests.contract.store.damaged_campus import HARMS, Place, a_lived_campus, written

PLACES = 240
SEED = 26


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def opened(place: Place) -> tuple[SavedCampus, list[Credential]] | str:
    store = place.store()
    try:
        term = await store.open(holder="test", now_s=5000.0, lead_s=30.0)
    except StoreBroken as refused:
        return str(refused)
    try:
        return await store.load(), list(await store.credentials())
    finally:
        await store.close(term=term)


def files(place: Place) -> dict[str, bytes]:
    """But for what SQLite makes anew whenever it looks: an index of its log, and an empty log."""
    found = {one.name: one.read_bytes() for one in place.folder.iterdir()}
    return {name: data for name, data in found.items() if data and not name.endswith((".db-shm", ".lock"))}


def check_saved(found: SavedCampus, whole: SavedCampus, told: str) -> str:
    """No fewer jobs, nodes or timers than there were, but for those of jobs that are named as held."""
    held = {one.id: one for one in found.records if isinstance(one, HeldJob)}
    jobs = {one.id: one for one in found.records if isinstance(one, Job)}
    for job in (one for one in whole.records if isinstance(one, Job)):
        assert job.id in held or jobs.get(job.id) == job, f"{told}: {job.id} is another one"
    assert jobs.keys().isdisjoint(held)
    nodes = {one.id for one in found.records if isinstance(one, Node)}
    assert nodes == {one.id for one in whole.records if isinstance(one, Node)}
    assert all(one.why for one in held.values())
    if not held and not found.left_out:
        assert lasting(found) == lasting(whole), told
        return "whole"
    assert held.keys() <= {one.id for one in whole.records if isinstance(one, Job)} or len(held) > 1
    return "held" if held else "left out"


def lasting(saved: SavedCampus) -> SavedCampus:
    """Without the moments that every start sets anew."""
    kept = [(timer, at_s) for timer, at_s in saved.timers if timer_subject(str(timer))[0] not in SET_AGAIN]
    return replace(saved, timers=tuple(kept))


def held_in(saved: SavedCampus) -> set[str]:
    return {one.id for one in saved.records if isinstance(one, HeldJob)}


def started(saved: SavedCampus) -> PureCoordinator:
    """As the coordinator does; what it decides first must stand."""
    station = PureCoordinator(saved=saved, policies=BASELINE, timing=Timing(), term=9000, now_s=6000.0)
    station.committed(station.decide(6000.0, CoordinatorStarted()))
    for held in station.engine.state.held.values():
        assert held.id not in station.engine.state.jobs
    return station


async def test_damage_anywhere_holds_what_it_hit_or_is_refused_in_words(tmp_path: Path) -> None:
    campus = a_lived_campus()
    killed = await written(campus.commits, tmp_path / "campus")
    whole = await opened(killed.copied(tmp_path / "whole"))
    assert not isinstance(whole, str), whole
    assert started(whole[0]).engine.state.jobs.keys() == campus.station.engine.state.jobs.keys()
    outcomes: dict[str, int] = {}
    for number in range(PLACES):
        chance = random.Random(f"{SEED}-{number}")
        place = killed.copied(tmp_path / f"{number}")
        harm = HARMS[number % len(HARMS)]
        told = harm(place, chance)
        before = files(place)
        found = await opened(place)
        if isinstance(found, str):
            assert files(place) == before, f"{told}: a refusal changed something"
            assert await opened(place) == found, f"{told}: the same start says something else"
            assert str(place.database) in found
            outcome = "refused"
        else:
            outcome = check_saved(found[0], whole[0], told)
            assert found[1] == whole[1], f"{told}: other credentials"
            started(found[0])
            again = await opened(place)
            assert not isinstance(again, str), f"{told}: opened once and then refused: {again}"
            assert held_in(again[0]) == held_in(found[0]), f"{told}: others are held the second time"
        outcomes[f"{harm.__name__}: {outcome}"] = outcomes.get(f"{harm.__name__}: {outcome}", 0) + 1
    print(*sorted(outcomes.items()), sep="\n")
    assert {"held", "refused"} <= {name.split(": ")[1] for name in outcomes}
