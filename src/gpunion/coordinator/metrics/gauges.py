"""What is so at the moment, taken from the coordinator's memory between two decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gpunion.coordinator.metrics import series
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.withheld import withheld_of
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.metrics import Sample, Series


def samples(
    station: PureCoordinator,
    now_s: float,
    connected: int,
    counters: Mapping[str, int],
    given_s: Mapping[str, float],
) -> list[Sample]:
    """`counters`: what the loop counts of itself, by its own names. `given_s`: GPU-seconds by lab."""
    state = station.engine.state
    there = [node for node in state.nodes.values() if not node.removed and node.phase is not NodePhase.LEFT]
    queue = Counter(job.phase for job in state.jobs.values())
    phases = Counter(node.phase for node in state.nodes.values() if not node.removed)
    gpus = _gpus(state, there)
    return [
        _one(series.AGENTS, connected),
        _one(series.VIOLATIONS, counters.get("violations", 0)),
        _one(series.SET_ASIDE, counters.get("set_aside", 0)),
        _one(series.STORE_FAULTS, counters.get("store_faults", 0) + counters.get("store_full", 0)),
        *(_one(series.QUEUE, queue[phase], phase.value) for phase in JobPhase if not phase.over),
        *(_one(series.PROVIDERS, phases[phase], phase.value) for phase in NodePhase),
        *(_one(series.GPUS, gpus[word], word) for word in ("used", "free", "withheld")),
        *(_one(series.CONTRIBUTION, lent_s, lab) for lab, lent_s in given_s.items()),
        *_lease_ages(station, there, now_s),
    ]


def _gpus(state: CampusState, there: list[Node]) -> Counter[str]:
    """By what a guest who came now would find."""
    found: Counter[str] = Counter()
    for node in there:
        living = (state.runs[run_id] for run_id in state.living.get(node.id, ()))
        held = {index for run in living for index in run.held_gpus}
        lends = node.phase is NodePhase.SHARING and not node.isolated_because
        for gpu in node.facts.capacity.gpus:
            if gpu.index in held:
                found["used"] += 1
            elif lends and withheld_of(node.withheld, gpu.index) is None:
                found["free"] += 1
            else:
                found["withheld"] += 1
    return found


def _lease_ages(station: PureCoordinator, there: list[Node], now_s: float) -> list[Sample]:
    heard = ((node.id, station.leases.last_heard_s(node.id)) for node in there)
    return [
        _one(series.LEASE_AGE, max(0.0, now_s - at_s), node_id) for node_id, at_s in heard if at_s is not None
    ]


def _one(what: Series, value: float, *labels: str) -> Sample:
    return Sample(series=what, value=value, labels=labels)
