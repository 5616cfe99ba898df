"""Names of GPU models, as makers, drivers and people write them: RTX 4090 and RTX4090, A100-SXM4-80GB."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

from gpunion.domain.resources import GIB

# Names are few: those of the campus's cards, and those that people ask for.
NAMES_REMEMBERED = 4096
# A letter behind a number makes another card (L40S), but for words that are only written without a blank.
_MEMORY = re.compile(r"(\d{1,4}) ?(?:GB|GIB)\b")
_PARTS = re.compile(r"[A-Z]+|\d+(?:(?!TI|SUPER|GB|GIB)[A-Z]+)?")


@lru_cache(maxsize=NAMES_REMEMBERED)
def is_model(model: str, named: str) -> bool:
    """Whether a card called `model` is one of those that `named` means: its words are among the card's, in
    their order and whole, so that an L4 is no L40. Capitals, blanks and dashes say nothing."""
    has, wanted = _parts(model), _parts(named)
    if not wanted:
        return model == named
    starts = range(len(has) - len(wanted) + 1)
    return any(has[start : start + len(wanted)] == wanted for start in starts)


def _parts(name: str) -> list[str]:
    return _PARTS.findall(name.upper())


REFERENCE = "A100"
UNKNOWN = 0.5  # slower than the reference: a card nobody named is more often an old one

# The longest name that is part of a card's wins: "RTX 4090" before "RTX 40".
SPEEDS: dict[str, float] = {
    "B200": 6.0,
    "B100": 5.0,
    "GH200": 3.0,
    "H200": 3.2,
    "H100": 3.0,
    "H100 PCIE": 2.4,
    "H800": 2.6,
    "A100": 1.0,
    "A800": 0.95,
    "A40": 0.5,
    "A30": 0.5,
    "A10": 0.4,
    "A6000": 0.5,
    "A5000": 0.35,
    "A4000": 0.25,
    "L40S": 1.1,
    "L40": 0.6,
    "L4": 0.35,
    "RTX 6000 ADA": 1.1,
    "RTX PRO 6000": 1.5,
    "RTX 5090": 1.2,
    "RTX 5080": 0.7,
    "RTX 4090": 1.0,
    "RTX 4080": 0.6,
    "RTX 4070": 0.4,
    "RTX 4060": 0.2,
    "RTX 3090": 0.45,
    "RTX 3080": 0.4,
    "RTX 3070": 0.25,
    "RTX 3060": 0.16,
    "RTX 2080": 0.25,
    "TITAN RTX": 0.3,
    "TITAN V": 0.35,
    "V100": 0.4,
    "P100": 0.06,
    "T4": 0.2,
    "GTX 1080": 0.03,
}


def speed_of(model: str, memory_bytes: int = 0, card_bytes: int = 0) -> float:
    """A slice has its share of the card, by memory."""
    speed = known_speed(model) or UNKNOWN
    if card_bytes > memory_bytes > 0:
        speed *= memory_bytes / card_bytes
    return speed


def declared_speed(model: str) -> float:
    """Of a card that its owner names. As fast as the reference where the name says nothing: it may be any."""
    return known_speed(model) or 1.0


def known_speed(model: str) -> float | None:
    known = [name for name in SPEEDS if is_model(model, name)]
    return SPEEDS[max(known, key=len)] if known else None


def most_like(model: str, besides: Iterable[str] = ()) -> str | None:
    """What a name that nobody knows was probably meant to be. `besides`: models that are known too, although
    their speed is not."""
    names = {_as_written(name) for name in (*SPEEDS, *besides)}
    return next(iter(get_close_matches(_as_written(model), sorted(names), n=1)), None)


def _as_written(name: str) -> str:
    """Behind a number, or in a flag: RTX4090."""
    return name.upper().removeprefix("NVIDIA ").removeprefix("GEFORCE ").replace(" ", "")


def named_memory_bytes(model: str) -> int | None:
    """Where its name says so: makers write GB and mean GiB."""
    found = _MEMORY.search(model.upper())
    return int(found[1]) * GIB if found else None
