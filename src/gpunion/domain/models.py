"""Names of GPU models, as makers, drivers and people write them: RTX 4090 and RTX4090, A100-SXM4-80GB."""

from __future__ import annotations

import re
from functools import lru_cache

# Names are few: those of the campus's cards, and those that people ask for.
NAMES_REMEMBERED = 4096
# A letter behind a number makes another card (L40S), but for words that are only written without a blank.
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
