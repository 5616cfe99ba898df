"""What an image says of the GPUs it can run on: NVIDIA_REQUIRE_CUDA, as NVIDIA's container runtime reads it.

Alternatives stand between blanks, the conditions of one between commas: "cuda>=12.4 driver>=525,driver<526".
A brand, which nobody here knows, is left to that runtime to refuse.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpunion.domain.resources import Gpu
from gpunion.domain.version_ranges import is_within

VARIABLE = "NVIDIA_REQUIRE_CUDA"
REMEMBERED = 1024
REQUIREMENT_MAX_CHARS = 4096  # NVIDIA's own have less than half of it
_CONDITION = re.compile(r"(cuda|driver|arch)(>=|<=|!=|=|<|>)(\d{1,4}(?:\.\d{1,4}){0,3})", re.ASCII)

Condition = tuple[str, str]


def runs_here(requirement: str, gpu: Gpu) -> bool:
    """Whether one of the alternatives holds. Nothing that can be understood asks for nothing."""
    alternatives = _alternatives(requirement)
    versions = {"cuda": gpu.cuda, "driver": gpu.driver, "arch": gpu.compute_capability}
    return not alternatives or any(
        all(is_within(versions[what], asked) for what, asked in conditions) for conditions in alternatives
    )


def first_words(requirement: str) -> str:
    """The first alternative, which says it for people: the others are for single drivers."""
    return requirement.split()[0][:64] if requirement.split() else ""


@lru_cache(maxsize=REMEMBERED)
def _alternatives(requirement: str) -> tuple[tuple[Condition, ...], ...]:
    if len(requirement) > REQUIREMENT_MAX_CHARS:
        return ()
    return tuple(_conditions(alternative) for alternative in requirement.split())


def _conditions(alternative: str) -> tuple[Condition, ...]:
    found = (_CONDITION.fullmatch(part) for part in alternative.split(","))
    return tuple((one[1], f"{'==' if one[2] == '=' else one[2]}{one[3]}") for one in found if one is not None)
