"""What keeps a job waiting, in a sentence short enough to be read."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.reasons.reason import Reason, Verdict
from gpunion.policy.placement.filters import FOR_GOOD
from gpunion.text import counted

# How many different refusals a sentence lists before it stops being read.
SHOWN = 3


def blockers(verdicts: Iterable[Verdict]) -> str:
    """The refusals. First those that can pass, since they are what is waited for, then the commonest."""
    alike: dict[tuple[object, ...], list[Reason]] = {}  # many nodes refuse with the same words
    for verdict in verdicts:
        if verdict.refusal is not None:
            alike.setdefault((verdict.refusal.why, verdict.refusal.facts), []).append(verdict.refusal)
    said: dict[tuple[bool, str], int] = {}
    for refusals in alike.values():
        told = (refusals[0].why in FOR_GOOD, refusals[0].sentence())
        said[told] = said.get(told, 0) + len(refusals)
    ranked = sorted(said.items(), key=lambda pair: (pair[0][0], -pair[1], pair[0][1]))
    shown = [f"{counted(count, 'machine')}: {sentence}" for (_, sentence), count in ranked[:SHOWN]]
    if rest := sum(count for _, count in ranked[SHOWN:]):
        shown.append(f"{rest} more {'says' if rest == 1 else 'say'} no for other reasons")
    return "; ".join(shown) or "no machine is part of this campus now"
