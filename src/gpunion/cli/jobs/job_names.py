"""Which job is meant: its id, the beginning or the end of its id, or its name."""

from __future__ import annotations

from collections.abc import Iterator

from gpunion.cli.campus import Campus, Json
from gpunion.cli.exits import CONFLICT, NOT_FOUND, Trouble
from gpunion.cli.parser import did_you_mean

PREFIX = "job-"
FULL_LENGTH = len(PREFIX) + 26
# Ids begin with the time, so that those of one afternoon look alike; their ends do not.
SHORT_LENGTH = 8
SHORTEST = 4
MEMBER = "-r"  # before the rank in the id of a gang's member, but the first's
# A search reads this many of the newest jobs at most: what was years ago is asked for by its whole id.
SEARCHED_JOBS_MAX = 5000
PAGE = 500
CANDIDATES_SHOWN = 8


def short(job_id: str) -> str:
    """How `ps` shows an id; `find_job` takes it back."""
    leader, member, rank = job_id.rpartition(MEMBER)
    if member and rank.isdecimal():
        return f"{short(leader)}{MEMBER}{rank}"
    return job_id[-SHORT_LENGTH:] if job_id.startswith(PREFIX) and len(job_id) == FULL_LENGTH else job_id


def find_job(campus: Campus, word: str) -> str:
    """The job's id. An ambiguous word is an error that lists what it could mean: `stop` must not guess."""
    if word.startswith(PREFIX) and len(word) == FULL_LENGTH:
        return word
    jobs = list(_newest(campus))
    for matching in (_exactly, _by_name, _by_id):
        found = _without_followers([job for job in jobs if matching(job, word)])
        living = [job for job in found if job["ended_at"] is None]
        if len(found) == 1 or (matching is _by_name and len(living) == 1):
            return str((living or found)[0]["id"])
        if found:
            raise _ambiguous(word, found)
    meant = did_you_mean(word, {str(job["name"]) for job in jobs})
    raise Trouble(f"there is no job {word!r}{meant}", next_step="gpunion ps -a lists them", code=NOT_FOUND)


def _without_followers(found: list[Json]) -> list[Json]:
    """Who names a gang means its first member, which stands for all."""
    ids = {job["id"] for job in found}
    return [job for job in found if not ids & _before_it(job)]


def _before_it(job: Json) -> set[str]:
    """The members of its gang that come before it."""
    gang = job.get("gang")
    return set() if gang is None else set(gang["members"][: gang["rank"]])


def _newest(campus: Campus) -> Iterator[Json]:
    cursor: str | None = None
    for _ in range(SEARCHED_JOBS_MAX // PAGE):
        page = campus.jobs(limit=PAGE, cursor=cursor)
        yield from page["jobs"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _exactly(job: Json, word: str) -> bool:
    return bool(job["id"] == word)


def _by_name(job: Json, word: str) -> bool:
    return bool(job["name"] == word)


def _by_id(job: Json, word: str) -> bool:
    job_id = str(job["id"])
    if len(word.removeprefix(PREFIX)) < SHORTEST:
        return False
    return job_id.startswith((word, PREFIX + word)) or job_id.endswith(word)


def _ambiguous(word: str, found: list[Json]) -> Trouble:
    shown = ", ".join(
        f"{short(job['id'])} ({job['name']}, {job['phase']})" for job in found[:CANDIDATES_SHOWN]
    )
    more = f" and {len(found) - CANDIDATES_SHOWN} more" if len(found) > CANDIDATES_SHOWN else ""
    return Trouble(
        f"{word!r} could be {len(found)} jobs",
        why=f"{shown}{more}",
        next_step="name one of them by its id",
        code=CONFLICT,
    )
