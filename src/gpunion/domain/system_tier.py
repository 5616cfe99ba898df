"""Tier `system`: a whole guest is taken as it is, by the machine and not by its program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """Who saves a job."""

    APP = "app"  # the program saves itself
    SYSTEM = "system"  # its machine dumps it, memory, open files and all


OTHERWISE = "a job that saves itself may come (--checkpoint-tier app)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemAbility:
    """Whether a machine can dump whole guests and bring them back: found by doing it, not by asking."""

    able: bool = False
    why_not: str = f"that takes Podman and an agent of root's; {OTHERWISE}"
    kind: str = ""  # what a dump depends on, in one word; dumps move freely between machines of one kind


# Of a machine that has the means: what it says until it has dumped and brought back a small guest.
UNTRIED = SystemAbility(why_not="it is being found out whether it can")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTried:
    """What came of a dump of another kind of machine on this one: the memory of pairs."""

    kind: str
    worked: bool


# More kinds of machines than a campus has; the oldest is forgotten.
TRIES_KEPT = 16


def learned(tries: tuple[RestoreTried, ...], kind: str, *, worked: bool) -> tuple[RestoreTried, ...]:
    others = [tried for tried in tries if tried.kind != kind]
    return (*others, RestoreTried(kind=kind, worked=worked))[-TRIES_KEPT:]


def architecture(kind: str) -> str:
    return kind.partition("/")[0]


def differing(kind: str, other: str) -> str:
    """What two kinds of machines differ in, for people."""
    pairs = zip(kind.split("/"), other.split("/"), strict=False)
    return ", ".join(f"{mine} and {theirs}" for mine, theirs in pairs if mine != theirs) or "their programs"
