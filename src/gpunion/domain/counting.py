"""Numbers and their words, as people say them: 1 move, 2 moves."""

from __future__ import annotations

import re
from functools import lru_cache

# As written in templates: `{moves} move(s)` and `{needs} (is/are) needed` agree with the fact before them.
_CHOICE = re.compile(r"\{(\w+)\}|\(s\)|\((\w+)/(\w+)\)")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@lru_cache(maxsize=1024)  # there are some dozens of templates, and few of their facts are counts
def agreeing(template: str, ones: frozenset[str]) -> str:
    """The template for these facts. `ones`: those that are exactly one."""
    last = ""

    def choose(found: re.Match[str]) -> str:
        nonlocal last
        if found[1]:
            last = found[1]
            return found[0]
        one, many = (found[2], found[3]) if found[2] else ("", "s")
        return one if last in ones else many

    return _CHOICE.sub(choose, template)
