"""Of many that wait only some bid: never in the place of others those who could have none of the windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import JobPhase, JobSpec, WindowWish
from tests.builders.turns import ANY_LENGTH, LEAST_S, Turns, of
from tests.builders.values import facts, some_gpus

LARGE = facts(gpus=some_gpus(1, model="H100", memory_gib=80))
MIXED = (*some_gpus(1, memory_gib=8), *some_gpus(1, memory_gib=24, first=1))
DAY = WindowWish(shortest_s=86_400.0)


def begun(campus: Turns, job: str) -> bool:
    return campus.job(job).phase is not JobPhase.PENDING


def a_large_card_that_is_taken(campus: Turns) -> None:
    campus.joins("large", LARGE)
    campus.runs("rigid", of("eve", vram_gib=60, in_windows=False))


@pytest.mark.parametrize("hopeless", [of("eve", vram_gib=60), of("eve", wish=DAY)], ids=["large", "long"])
def test_jobs_that_fit_no_place_keep_nobody_out_of_its_turn(hopeless: JobSpec) -> None:
    campus = Turns()
    campus.joins("small")
    a_large_card_that_is_taken(campus)
    campus.runs("tenant", of("bob"))
    for number in range(12):
        campus.submits(f"hog{number}", hopeless)
    campus.later(5.0).submits("poor", of("ann"))
    campus.looks_until(campus.now_s + 3 * LEAST_S)
    assert campus.promised().keys() == {"poor"}


def test_a_gap_is_found_among_many_free_cards_that_are_too_small() -> None:
    campus = Turns()
    for number in range(40):
        campus.joins(f"a{number:02}", facts(gpus=some_gpus(1, memory_gib=8)))
    campus.joins("z")
    campus.ends_in("z", 110.0)
    campus.submits("job", of("sam", vram_gib=16, wish=ANY_LENGTH))
    assert campus.run().node_id == "z"


@pytest.mark.parametrize(
    "hopeless", [of("eve", vram_gib=60, wish=ANY_LENGTH), of("eve", wish=DAY)], ids=["large", "long"]
)
def test_a_gap_is_given_to_who_fits_it_behind_many_who_do_not(hopeless: JobSpec) -> None:
    campus = Turns()
    a_large_card_that_is_taken(campus)
    campus.joins("z")
    campus.ends_in("z", 110.0)
    for number in range(70):
        campus.submits(f"w{number:02}", replace(hopeless, owner=f"u{number:02}"))
    campus.later(1.0).submits("job", of("zoe", vram_gib=16, wish=ANY_LENGTH))
    assert begun(campus, "job")


def test_more_gaps_and_bidders_than_one_clearing_has_are_all_served_in_time() -> None:
    campus = Turns()
    for number in range(40):
        campus.joins(f"n{number:02}")
        campus.ends_in(f"n{number:02}", 110.0)
    for number in range(40):
        campus.submits(f"j{number:02}", of(f"u{number:02}", wish=ANY_LENGTH))
    assert len(campus.running()) == 40


def test_a_gap_on_a_large_card_is_of_use_beside_a_smaller_one_that_is_free() -> None:
    campus = Turns()
    campus.joins("m", facts(gpus=MIXED))
    campus.ends_in("m", 110.0)
    campus.submits("job", of("sam", vram_gib=16, wish=ANY_LENGTH))
    assert campus.run().grant.gpu_indices == (1,)


def test_a_job_takes_the_turn_of_whoever_has_a_card_that_is_large_enough() -> None:
    campus = Turns()
    campus.joins("m", facts(gpus=MIXED))
    for job in ("t0", "t1"):
        campus.runs(job, of("bob"))
    campus.submits("job", of("ann", vram_gib=16))
    campus.looks_until(campus.now_s + 3 * LEAST_S)
    assert campus.promised()["job"].gpus == (1,)


def test_a_tenant_that_bids_for_a_moment_only_is_cleared_no_more_often_than_others() -> None:
    campus = Turns()
    campus.joins("m")
    campus.runs("tenant", of("bob", wish=WindowWish(longest_s=0.001)))
    campus.submits("waits", of("ann", wish=DAY))
    begun_s, looks = campus.now_s, 0
    while campus.now_s < begun_s + LEAST_S and looks < 50:
        campus.looks()
        looks += 1
    assert looks < 10
