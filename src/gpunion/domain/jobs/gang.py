"""A gang: several members of one job that run all together or not at all.

Each member is a job of its own, with runs, saves and a story of its own; what makes them a gang is the seat
each has. The first member is the leader: its id is the one its user was given.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import JobId

# More would not find as many machines at once on any campus we know of.
GANG_MOST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One member's place among the others: which of how many."""

    size: int
    rank: int = 0


def member_id(leader: JobId, rank: int) -> JobId:
    return leader if rank == 0 else JobId(f"{leader}-r{rank}")


def leader_of(job_id: JobId, seat: Seat) -> JobId:
    return job_id if seat.rank == 0 else JobId(job_id.removesuffix(f"-r{seat.rank}"))


def member_ids(job_id: JobId, seat: Seat) -> tuple[JobId, ...]:
    """All of them, whichever member is asked, by rank."""
    leader = leader_of(job_id, seat)
    return tuple(member_id(leader, rank) for rank in range(seat.size))
