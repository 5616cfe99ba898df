"""What follows from the house rules at a moment: the machine, or a GPU of it, is withheld or lent again.

Only thinks: what is seen goes in, the owner's words come out. What the owner says themselves stands above it:
what they lend although a rule withholds it stays lent until the rule has been at rest once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpunion.domain.jobs.guest import Holding, OwnerState
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu, withheld_of
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed

Word = OwnerReclaimed | OwnerResumed

HOURS, PRESENCE, HEAT = "hours", "presence", "heat"

# A GPU that was too hot is lent again when it has been this much cooler than the cap, for this long.
COOLER_C = 5.0
COOL_FOR_S = 60.0
# One reading may be wrong; two in a row are heat.
HOT_LOOKS = 2
# A deadline that moved by less than this is the same one.
SAME_MOMENT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One reason to withhold something now, and how soon."""

    name: str
    detail: str
    notice_s: float
    due: bool = False  # the notice ends at a moment that stands; else it is as long again at every look


@dataclass(slots=True)
class WholeMachine:
    """Hours, calendar and presence, where they concern all of the machine."""

    excused: set[str] = field(default_factory=set)  # rules the owner lends in spite of
    _withheld_for: frozenset[str] = frozenset()  # as of the last look, by us or by the owner

    def look(self, now_s: float, rules: Sequence[Rule], holding: Holding) -> Word | None:
        active = {rule.name for rule in rules}
        self.excused &= active
        if holding.owner_state is OwnerState.LEFT or holding.leaving:
            return None
        if holding.owner_state in (OwnerState.SHARING, OwnerState.PAUSED):
            if self._withheld_for and holding.owner_state is OwnerState.SHARING:
                self.excused |= self._withheld_for & active  # only the owner's word can have lent it
            fresh = self._counting(rules)
            self._withheld_for = frozenset(rule.name for rule in fresh)
            return _withhold(fresh)
        if holding.cause is not HoldCause.TERMS:
            self._withheld_for = frozenset(active)  # whoever lends it now knows what would speak against it
            return None
        counting = self._counting(rules)
        if not counting:
            self._withheld_for = frozenset()
            return OwnerResumed(cause=HoldCause.TERMS)
        self._withheld_for = frozenset(rule.name for rule in counting)
        return _sooner(now_s, counting, holding)

    def _counting(self, rules: Sequence[Rule]) -> list[Rule]:
        return [rule for rule in rules if rule.name not in self.excused]


def _withhold(rules: Sequence[Rule], gpus: tuple[int, ...] = ()) -> OwnerReclaimed | None:
    if not rules:
        return None
    notice_s = min(rule.notice_s for rule in rules)
    detail = "; ".join(rule.detail for rule in rules)
    return OwnerReclaimed(notice_s=notice_s, gpus=gpus, cause=HoldCause.TERMS, detail=detail)


def _sooner(now_s: float, rules: Sequence[Rule], holding: Holding) -> OwnerReclaimed | None:
    """Said again where the wall's clock was set, or another rule gives less time."""
    word = _withhold(rules)
    if word is None or holding.owner_state is not OwnerState.RECLAIMING or holding.deadline_s is None:
        return None
    due = [rule.notice_s for rule in rules if rule.due]
    if not due or now_s + min(due) >= holding.deadline_s - SAME_MOMENT_S:
        return None
    return OwnerReclaimed(notice_s=min(due), cause=HoldCause.TERMS, detail=word.detail)


@dataclass(slots=True)
class SingleGpus:
    """Heat of each GPU; presence, where it concerns some of them."""

    _hot_looks: dict[int, int] = field(default_factory=dict)
    _cool_since_s: dict[int, float] = field(default_factory=dict)
    _excused: set[int] = field(default_factory=set)  # present, and lent by the owner's word
    _held: dict[int, HoldCause] = field(default_factory=dict)  # as of the last look

    def look(
        self,
        now_s: float,
        heat: Mapping[int, Rule | None],
        present: Mapping[int, Rule],
        withheld: Sequence[WithheldGpu],
    ) -> list[Word]:
        """`heat`: for every GPU whose temperature is known, the rule where it is too hot to be lent."""
        words = []
        for index in sorted({*heat, *present, *(gpu.index for gpu in withheld)}):
            rules = [rule for rule in (heat.get(index), present.get(index)) if rule is not None]
            word = self._one(index, rules, withheld_of(withheld, index))
            if word is not None:
                words.append(word)
        return words

    def too_hot(self, now_s: float, index: int, temperature_c: float, cap_c: float) -> bool:
        """With patience on both sides, so that nobody is sent away for a moment's flutter."""
        hot = temperature_c > cap_c
        self._hot_looks[index] = self._hot_looks.get(index, 0) + 1 if hot else 0
        if self._hot_looks[index] >= HOT_LOOKS:
            self._cool_since_s[index] = now_s + COOL_FOR_S  # not before
            return True
        if index not in self._cool_since_s:
            return False
        if temperature_c > cap_c - COOLER_C:
            self._cool_since_s[index] = max(self._cool_since_s[index], now_s + COOL_FOR_S)
        if now_s < self._cool_since_s[index]:
            return True
        del self._cool_since_s[index]
        return False

    def _one(self, index: int, rules: list[Rule], held: WithheldGpu | None) -> Word | None:
        former = self._held.pop(index, None)
        if held is not None:
            self._held[index] = held.cause
        if not any(rule.name == PRESENCE for rule in rules):
            self._excused.discard(index)
        elif held is None and former is HoldCause.TERMS:
            self._excused.add(index)  # nobody but the owner lends what their terms withhold
        if index in self._excused:
            rules = [rule for rule in rules if rule.name != PRESENCE]
        if held is None or held.phase is GpuPhase.PAUSED:
            return _withhold(rules, (index,))
        if held.cause is HoldCause.TERMS and not rules:
            self._held.pop(index, None)  # lent by us, not by the owner
            return OwnerResumed(gpus=(index,), cause=HoldCause.TERMS)
        return None


@dataclass(slots=True)
class Presence:
    """Somebody is at the machine until nothing has been seen of them for a while."""

    _last_s: float | None = None
    _who: str = ""

    def look(self, now_s: float, seen: str, quiet_s: float) -> str:
        """`seen`: who or what was seen just now, or nothing. Who is there, or nothing."""
        if seen:
            self._last_s, self._who = now_s, seen
        if self._last_s is None or now_s - self._last_s >= quiet_s:
            self._last_s, self._who = None, ""
        return self._who or seen
