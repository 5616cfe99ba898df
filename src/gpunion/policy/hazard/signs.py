"""Live signs that an owner is about to want the machine back: logged in, at the keyboard, on a GPU.

What they are worth is learned, not guessed: departures while exactly these were shown over those the hour and
the age led us to expect. Each combination has a record of its own, since signs come together (who types is
logged in) and would count twice if their factors were multiplied; there are eight. "None of them" is one as
well: an owner who is not there is a good sign, where signs are told at all.

Only how combinations differ counts: that a young campus expects too much or too little of everybody is for
the hazard to learn, not for the signs. A combination nobody has seen at work changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, log

from gpunion.domain.nodes.lending import SignTally
from gpunion.domain.nodes.signs import Sign, in_order
from gpunion.policy.hazard.history import HALF_LIFE_S

# Signs count as this many departures' worth of "they mean nothing" until there is evidence.
NEUTRAL_DEPARTURES = 3.0
# What signs may make of a rate, however long their record: with these the interval of saves is a fifth, or
# less than twice, of what it would be.
FACTOR_LEAST, FACTOR_MOST = 1 / 3, 25.0
# Signs speak of what comes next. For how likely a machine stays longer than this the week's rate holds.
SPEAK_FOR_S = 3600.0
# Who comes sooner after a sign than a guest is asked, saves and sends was not announced by it: a departure
# like that is put down to what was shown before. Else intervals would grow while nobody is seen, and nothing
# be saved in time when somebody is.
LEAD_S = 120.0
# The record is rounded when it is written, so that a coordinator that starts again knows the same.
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class SignBook:
    """Pooled over the fleet: a login means much the same on every desk."""

    tallies: Mapping[frozenset[Sign], SignTally] = field(default_factory=dict)
    as_of_s: float = 0.0

    def seen(self, shown: Iterable[Sign], *, departed: bool, expected: float, at_s: float) -> SignBook:
        """After a time in which these were shown and so many departures were expected without them."""
        later_s = max(self.as_of_s, at_s)
        fade = exp(-log(2.0) * (later_s - self.as_of_s) / HALF_LIFE_S)
        faded = {
            key: _tally(key, fade * one.departures, fade * one.expected) for key, one in self.tallies.items()
        }
        key = frozenset(shown)
        before = faded.get(key, _tally(key, 0.0, 0.0))
        now = _tally(key, before.departures + departed, before.expected + expected)
        return SignBook(tallies={**faded, key: now}, as_of_s=later_s)

    def factor(self, shown: Iterable[Sign]) -> float:
        """What the rate is to be multiplied with while exactly these are shown."""
        tally = self.tallies.get(frozenset(shown))
        if tally is None:
            return 1.0
        due = tally.expected * self._level() + NEUTRAL_DEPARTURES
        return min(FACTOR_MOST, max(FACTOR_LEAST, (tally.departures + NEUTRAL_DEPARTURES) / due))

    def records(self) -> tuple[SignTally, ...]:
        return tuple(self.tallies[key] for key in sorted(self.tallies, key=in_order))

    def _level(self) -> float:
        """Departures over those expected, whatever was shown."""
        departures = sum(one.departures for one in self.tallies.values())
        expected = sum(one.expected for one in self.tallies.values())
        return (departures + NEUTRAL_DEPARTURES) / (expected + NEUTRAL_DEPARTURES)


def book_of_signs(records: Iterable[SignTally], as_of_s: float) -> SignBook:
    return SignBook(tallies={frozenset(one.shown): one for one in records}, as_of_s=as_of_s)


def _tally(shown: frozenset[Sign], departures: float, expected: float) -> SignTally:
    return SignTally(
        shown=in_order(shown), departures=round(departures, _DIGITS), expected=round(expected, _DIGITS)
    )
