"""What all members of a gang do once something happened to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Standing(StrEnum):
    """How one member stands, as far as the others care."""

    WAITING = "waiting"  # it has no run, and looks for a place or will
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"  # its last save is under way
    STOPPING = "stopping"  # told to end because of another member
    ENDED = "ended"  # its program ended well
    FAILED = "failed"  # its program ended badly, or would not start
    SPOILED = "spoiled"  # failed with what all had saved, and an earlier save that all have is left


class Act(StrEnum):
    STAY = "stay"
    SAVE_AND_GO = "save_and_go"
    STOP = "stop"
    RUN_AGAIN = "run_again"  # it had ended, but not all of them had
    GO_BACK = "go_back"  # and run again, from the common save before
    SUCCEED = "succeed"
    FAIL = "fail"


_FAILED = (Standing.FAILED, Standing.SPOILED)
_OVER = (Standing.ENDED, *_FAILED)


def conduct(members: Sequence[Standing]) -> tuple[Act, ...]:
    """Without a member the others only wait for it, so whoever cannot go on takes all of them along.

    A failure counts once all the others have ended too. Who loses a machine in the middle of a step leaves
    the others with a broken connection, and their programs often end for it before anybody knows of the
    loss: as soon as that is known, they are interrupted and have not failed. Nor do they blame a save then.
    """
    return tuple(_act(member, members) for member in members)


def _act(member: Standing, members: Sequence[Standing]) -> Act:
    if Standing.WAITING in members:
        return _one_is_gone(member)
    if Standing.LEAVING in members:
        return _one_leaves(member)
    if all(one in _OVER for one in members):
        return _all_are_over(members)
    if any(one in _FAILED for one in members) and member in (Standing.STARTING, Standing.RUNNING):
        return Act.STOP
    return Act.STAY


def _all_are_over(members: Sequence[Standing]) -> Act:
    """Where one blames its save, others may have failed for no more than that one's absence."""
    if Standing.SPOILED in members:
        return Act.GO_BACK
    return Act.FAIL if Standing.FAILED in members else Act.SUCCEED


def _one_is_gone(member: Standing) -> Act:
    match member:
        case Standing.STARTING | Standing.RUNNING:
            return Act.STOP  # it would save a step that the one who is gone has not
        case Standing.ENDED | Standing.FAILED | Standing.SPOILED:
            return Act.RUN_AGAIN
        case Standing.WAITING | Standing.LEAVING | Standing.STOPPING:
            return Act.STAY


def _one_leaves(member: Standing) -> Act:
    match member:
        case Standing.RUNNING:
            return Act.SAVE_AND_GO
        case Standing.STARTING:
            return Act.STOP
        case _:
            return Act.STAY
