"""Which job a word means."""

from __future__ import annotations

import pytest

from gpunion.cli.exits import CONFLICT, NOT_FOUND, Trouble
from gpunion.cli.jobs.job_names import find_job, short
from tests.unit.cli.campus_double import CampusDouble, a_job

AN_ID = "job-01m7gms2xbw7qsxf4s0tzz8fzj"
ANOTHER = "job-01m7gms3aaaaaaaaaaaaaaaaaa"


def campus_with(*jobs: dict[str, object]) -> CampusDouble:
    return CampusDouble(*jobs)


def test_a_whole_id_is_taken_as_it_is_without_asking() -> None:
    assert find_job(campus_with(), AN_ID) == AN_ID


@pytest.mark.parametrize("word", ["job-01m7gms2", "01m7gms2", "0tzz8fzj", "8fzj", "train"])
def test_a_beginning_an_end_or_a_name_finds_the_job(word: str) -> None:
    campus = campus_with(a_job() | {"id": AN_ID}, a_job(name="other") | {"id": ANOTHER})
    assert find_job(campus, word) == AN_ID


def test_what_is_shown_as_short_finds_the_job_again() -> None:
    campus = campus_with(a_job() | {"id": AN_ID}, a_job() | {"id": ANOTHER})
    assert find_job(campus, short(AN_ID)) == AN_ID


def test_a_word_for_two_jobs_is_refused_and_both_are_named() -> None:
    campus = campus_with(a_job() | {"id": AN_ID}, a_job() | {"id": ANOTHER})
    with pytest.raises(Trouble, match="could be 2 jobs") as raised:
        find_job(campus, "01m7gms")
    assert raised.value.code == CONFLICT
    assert short(AN_ID) in raised.value.why
    assert short(ANOTHER) in raised.value.why


def test_a_name_used_again_means_the_one_job_that_still_lives() -> None:
    ended = a_job(phase="succeeded", ended_at="2026-01-01T00:00:00.000Z") | {"id": ANOTHER}
    assert find_job(campus_with(a_job() | {"id": AN_ID}, ended), "train") == AN_ID


def test_a_name_of_two_ended_jobs_is_ambiguous() -> None:
    ended = a_job(phase="failed", ended_at="2026-01-01T00:00:00.000Z")
    campus = campus_with(ended | {"id": AN_ID}, ended | {"id": ANOTHER})
    with pytest.raises(Trouble, match="could be 2 jobs"):
        find_job(campus, "train")


def test_a_name_that_is_nearly_one_is_answered_with_what_was_meant_and_not_guessed() -> None:
    with pytest.raises(Trouble, match=r"no job 'train'; did you mean train\.py\?"):
        find_job(campus_with(a_job(name="train.py") | {"id": AN_ID}), "train")


@pytest.mark.parametrize("word", ["nothing", "fzj", "job-"])
def test_what_no_job_is_called_is_not_found(word: str) -> None:
    with pytest.raises(Trouble) as raised:
        find_job(campus_with(a_job() | {"id": AN_ID}), word)
    assert raised.value.code == NOT_FOUND


def test_all_pages_are_searched() -> None:
    campus = campus_with(*(a_job(number, name=f"job{number}") for number in range(1, 700)))
    assert find_job(campus, "job1") == a_job(1)["id"]


def a_gang() -> CampusDouble:
    members = [AN_ID, f"{AN_ID}-r1"]
    return campus_with(
        *(
            a_job(gang={"rank": rank, "size": 2, "members": members}) | {"id": members[rank]}
            for rank in (0, 1)
        )
    )


@pytest.mark.parametrize("word", ["train", "01m7gms2", short(AN_ID)])
def test_who_names_a_gang_means_its_first_member(word: str) -> None:
    assert find_job(a_gang(), word) == AN_ID


def test_another_member_is_named_by_what_is_shown_of_it() -> None:
    assert short(f"{AN_ID}-r1") == f"{short(AN_ID)}-r1"
    assert find_job(a_gang(), short(f"{AN_ID}-r1")) == f"{AN_ID}-r1"
