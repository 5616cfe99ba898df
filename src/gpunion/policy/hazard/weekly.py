"""The hazard of a live campus: the book of its nodes, the signs they show, the ends owners announced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpunion.domain.ids import NodeId
from gpunion.domain.node import Node
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.profile import RateProfile
from gpunion.policy.hazard.signs import Sign, SignBook


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyHazard:
    book: HazardBook = field(default_factory=HazardBook)
    sign_book: SignBook = field(default_factory=SignBook)
    signs: Mapping[NodeId, frozenset[Sign]] = field(default_factory=dict)
    hard_ends_s: Mapping[NodeId, float] = field(default_factory=dict)
    # A profile is made once a refit and asked thousands of times between two.
    _profiles: dict[NodeId, RateProfile] = field(default_factory=dict, compare=False, repr=False)

    def rate_per_s(self, node: Node, now_s: float) -> float:
        profile = self._profiles.get(node.id) or self._profile(node)  # asked at every save
        factor = self._factor(node) if self.signs else 1.0
        return profile.rate_at(now_s, free_since_s=min(now_s, node.phase_since_s), factor=factor)

    def upper_rate_per_s(self, node: Node, now_s: float) -> float:
        profile = self._profile(node)
        return profile.upper_rate_at(
            now_s, free_since_s=_free_since_s(node, now_s), factor=self._factor(node)
        )

    def survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return self._profile(node).survival(
            now_s,
            horizon_s,
            free_since_s=_free_since_s(node, now_s),
            factor=self._factor(node),
            hard_end_s=self._hard_end_s(node),
        )

    def lower_survival(self, node: Node, now_s: float, horizon_s: float) -> float:
        return self._profile(node).lower_survival(
            now_s,
            horizon_s,
            free_since_s=_free_since_s(node, now_s),
            factor=self._factor(node),
            hard_end_s=self._hard_end_s(node),
        )

    def _profile(self, node: Node) -> RateProfile:
        if node.id not in self._profiles:
            self._profiles[node.id] = self.book.profile(node.id)
        return self._profiles[node.id]

    def _hard_end_s(self, node: Node) -> float | None:
        """When its owner's own hours end it, as far as anybody said."""
        announced = [at_s for at_s in (self.hard_ends_s.get(node.id), node.known_end_s) if at_s is not None]
        return min(announced, default=None)

    def _factor(self, node: Node) -> float:
        shown = self.signs.get(node.id)
        return self.sign_book.factor(shown) if shown else 1.0


def _free_since_s(node: Node, now_s: float) -> float:
    return min(now_s, node.phase_since_s)
