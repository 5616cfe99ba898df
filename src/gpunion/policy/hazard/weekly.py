"""The hazard of a live campus: the book of its nodes, the signs they show, the ends owners announced."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.signs import Signs
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.profile import RateProfile
from gpunion.policy.hazard.signs import SignBook


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyHazard:
    book: HazardBook = field(default_factory=HazardBook)
    sign_book: SignBook = field(default_factory=SignBook)
    # A profile is made once a refit and asked thousands of times between two; a factor likewise.
    _profiles: dict[NodeId, RateProfile] = field(default_factory=dict, compare=False, repr=False)
    _factors: dict[Signs, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def rate_per_s(self, node: Node, now_s: float) -> float:
        profile = self._profiles.get(node.id) or self._profile(node)  # asked at every save
        factor = 1.0 if node.signs is None else self.factor(node.signs)
        return profile.rate_at(now_s, free_since_s=min(now_s, node.phase_since_s), factor=factor)

    def upper_rate_per_s(self, node: Node, now_s: float) -> float:
        profile, factor = self._profile(node), self.factor(node.signs)
        return profile.upper_rate_at(now_s, free_since_s=_free_since_s(node, now_s), factor=factor)

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return self._profile(node).survival(
            now_s,
            horizon_s,
            free_since_s=_free_since_s(node, now_s),
            factor=self.factor(node.signs),
            hard_end_s=node.known_end_s,
        )

    def lower_survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return self._profile(node).lower_survival(
            now_s,
            horizon_s,
            free_since_s=_free_since_s(node, now_s),
            factor=self.factor(node.signs),
            hard_end_s=node.known_end_s,
        )

    def factor(self, signs: Signs | None) -> float:
        """What these make of a rate; nothing where a node tells of none."""
        if signs is None:
            return 1.0
        if signs not in self._factors:
            self._factors[signs] = self.sign_book.factor(signs)
        return self._factors[signs]

    def expected(self, node: Node, from_s: float, to_s: float, *, free_since_s: float) -> float:
        """Departures in a time it was lent, as the week and its age alone would have it."""
        return self._profile(node).expected(from_s, to_s, free_since_s=free_since_s)

    def _profile(self, node: Node) -> RateProfile:
        if node.id not in self._profiles:
            self._profiles[node.id] = self.book.profile(node.id)
        return self._profiles[node.id]


def _free_since_s(node: Node, now_s: float) -> float:
    return min(now_s, node.phase_since_s)
