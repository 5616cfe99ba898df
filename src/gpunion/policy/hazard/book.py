"""Everything a coordinator knows of its nodes' comings and goings, learned one closed period at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpunion.policy.hazard.answers import profile_of, profiles_of
from gpunion.policy.hazard.evidence import Evidence, best_answer, pooled
from gpunion.policy.hazard.fleet import FleetPrior, fit_fleet
from gpunion.policy.hazard.history import LentSpan, NodeHistory, number
from gpunion.policy.hazard.profile import Answer, RateProfile

SpansOfNodes = Mapping[str, Sequence[LentSpan]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardBook:
    """`closed` is the one way on: foretell, judge, learn, fit. The prior is remade from the histories and
    need not be kept."""

    utc_offset_s: float = 0.0
    age_effect: bool = True
    now_s: float = 0.0
    histories: Mapping[str, NodeHistory] = field(default_factory=dict)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    prior: FleetPrior = field(default_factory=FleetPrior)
    fleet_evidence: Evidence = field(default_factory=Evidence)

    def closed(self, now_s: float, spans: SpansOfNodes) -> HazardBook:
        """The book after a period that ended now, with what every node was lent in it."""
        told = {node: tuple(of_node) for node, of_node in spans.items() if of_node}
        evidence = {
            **self.evidence,
            **{
                node: self.evidence.get(node, Evidence(as_of_s=now_s)).judged(
                    of_node, self.answers(node), now_s
                )
                for node, of_node in told.items()
            },
        }
        histories = {
            **self.histories,
            **{node: self.history(node).absorbed(of_node) for node, of_node in told.items()},
        }
        return replace(self, now_s=now_s, histories=histories, evidence=evidence).fitted()

    def fitted(self) -> HazardBook:
        """What all nodes together teach, made anew from what is known of each."""
        return replace(
            self,
            prior=fit_fleet(list(self.histories.values()), self.now_s, age_effect=self.age_effect),
            fleet_evidence=pooled(self.evidence.values()),
        )

    def history(self, node: str) -> NodeHistory:
        return self.histories.get(node) or NodeHistory(utc_offset_s=self.utc_offset_s)

    def answers(self, node: str) -> dict[Answer, RateProfile]:
        return profiles_of(self.history(node), self.prior, self.now_s)

    def best(self, node: str) -> Answer:
        own = self.evidence.get(node, Evidence())
        return best_answer(own, self.fleet_evidence.without(own))

    def profile(self, node: str, answer: Answer | None = None) -> RateProfile:
        """A node nobody has heard of gets what the fleet suggests."""
        return profile_of(self.history(node), self.prior, self.now_s, answer or self.best(node))

    def to_plain(self) -> dict[str, object]:
        return {
            "utc_offset_s": self.utc_offset_s,
            "age_effect": self.age_effect,
            "now_s": self.now_s,
            "nodes": {
                node: {
                    "history": history.to_plain(),
                    "evidence": self.evidence.get(node, Evidence()).to_plain(),
                }
                for node, history in self.histories.items()
            },
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> HazardBook:
        nodes = plain.get("nodes")
        if not isinstance(nodes, dict):
            raise ValueError(f"nodes: expected a table, found {nodes!r}")
        return cls(
            utc_offset_s=number(plain, "utc_offset_s"),
            age_effect=plain.get("age_effect") is True,
            now_s=number(plain, "now_s"),
            histories={node: NodeHistory.from_plain(record["history"]) for node, record in nodes.items()},
            evidence={node: Evidence.from_plain(record["evidence"]) for node, record in nodes.items()},
        ).fitted()
