"""Tier `system`: a whole guest is taken as it is, by the machine and not by its program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """Who saves a job."""

    APP = "app"  # the program saves itself
    SYSTEM = "system"  # its machine dumps it, memory, open files and all


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemAbility:
    """Whether a machine can dump whole guests and bring them back: found by doing it, not by asking."""

    able: bool = False
    why_not: str = "whole guests cannot be dumped here"
    kind: str = ""  # what a dump depends on, in one word; dumps move freely between machines of one kind
