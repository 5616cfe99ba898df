"""Which versions a job asks for (">=8.0", ">=12.4,<13"), and whether what a GPU has is one of them.

Used for compute capability and for the CUDA version that a driver supports: both are numbers with points
between them, compared part by part, so that 12.10 is more than 12.4.
"""

from __future__ import annotations

import operator
import re
from functools import lru_cache

CLAUSES_MAX = 4  # a lower and an upper bound, and one version left out on either side
REMEMBERED = 4096  # ranges and versions of a campus are few
RANGE_MAX_CHARS = 64
VERSION_MAX_CHARS = 32

Version = tuple[int, ...]

_VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){0,3}", re.ASCII)
_COMPARED = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


class BadRange(ValueError):
    """What is wrong with it and how it is written."""


def version_of(text: str) -> Version | None:
    """None where it is not known, or is no version. 8.0 and 8 are the same."""
    if len(text) > VERSION_MAX_CHARS or not _VERSION.fullmatch(text):
        return None
    parts = [int(part) for part in text.split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def checked_range(text: str, example: str) -> str:
    """The same without blanks. `example`: how one is written, for who wrote something else."""
    _clauses(text, example)
    return "".join(text.split())


@lru_cache(maxsize=REMEMBERED)
def is_within(version: str, asked: str) -> bool:
    """A version that is not known is within no range."""
    found = version_of(version)
    return found is not None and all(
        _COMPARED[sign](found, bound) for sign, bound in _clauses(asked, example=">=8.0")
    )


def distance(version: str, asked: str) -> float:
    """How far what a machine has is from the first bound; only good for finding the nearest."""
    found, (_, bound) = version_of(version), _clauses(asked, example=">=8.0")[0]
    return float("inf") if found is None else abs(_as_number(found) - _as_number(bound))


def _as_number(version: Version) -> float:
    return sum(part / 10_000.0**place for place, part in enumerate(version))


def _clauses(text: str, example: str) -> list[tuple[str, Version]]:
    parts = text.split(",")
    if len(text) > RANGE_MAX_CHARS or len(parts) > CLAUSES_MAX:
        raise BadRange(f"{text[:40]!r} is too long; write one or two bounds, like {example!r}")
    return [_clause(part, text, example) for part in parts]


def _clause(part: str, text: str, example: str) -> tuple[str, Version]:
    part = "".join(part.split())
    sign = next((sign for sign in _COMPARED if part.startswith(sign)), "")
    bound = version_of(part.removeprefix(sign))
    if bound is None:
        raise BadRange(
            f"{text!r} has no number such as {example.lstrip('<>=')} in it; write it like {example!r}"
        )
    if not sign:
        raise BadRange(
            f"{text!r} says no direction: write '>={part}' for at least that, '=={part}' for no other"
        )
    return sign, bound
