"""Live signs that an owner is about to want the machine back: logged in, at the keyboard, on a GPU.

What a sign is worth is learned, not guessed: departures while it was shown over those the hour and age led us
to expect. A sign nobody has seen at work changes nothing. An announced plan is no sign: it is a certain end,
and `RateProfile.survival` takes it as `hard_end_s`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod

# A sign counts as this many departures' worth of "it means nothing" until there is evidence.
NEUTRAL_DEPARTURES = 3.0
# One sign may not decide alone: beyond this, a longer record would have to say so first.
FACTOR_LEAST, FACTOR_MOST = 1 / 3, 10.0


class Sign(StrEnum):
    OWNER_LOGGED_IN = "owner-logged-in"
    OWNER_ON_GPU = "owner-on-gpu"
    KEYBOARD = "keyboard"
    CALENDAR = "calendar"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignWorth:
    departures: float = 0.0
    expected: float = 0.0

    @property
    def factor(self) -> float:
        found = (self.departures + NEUTRAL_DEPARTURES) / (self.expected + NEUTRAL_DEPARTURES)
        return min(FACTOR_MOST, max(FACTOR_LEAST, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignBook:
    """Pooled over the fleet: a login means much the same on every desk."""

    worth: Mapping[Sign, SignWorth] = field(default_factory=dict)

    def seen(self, sign: Sign, *, departed: bool, expected: float) -> SignBook:
        """After a time in which the sign was shown and so many departures were expected without it."""
        before = self.worth.get(sign, SignWorth())
        after = SignWorth(departures=before.departures + departed, expected=before.expected + expected)
        return replace(self, worth={**self.worth, sign: after})

    def factor(self, signs: Iterable[Sign]) -> float:
        """`exp(beta . x)`: the signs shown now, multiplied."""
        return prod(self.worth.get(sign, SignWorth()).factor for sign in set(signs))
