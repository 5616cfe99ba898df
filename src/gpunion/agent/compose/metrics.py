"""What counts and shows this machine's own figures, where its owner wants that."""

from __future__ import annotations

from gpunion.agent.metrics.gpu_readings import GpuFigures
from gpunion.agent.metrics.loopback import Loopback
from gpunion.agent.settings import Settings
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpu_series import gpu_samples
from gpunion.ports.metrics import Metrics, Sample, Uncounted


def own_page(settings: Settings, station: PureAgent, figures: GpuFigures) -> Loopback:
    def samples() -> list[Sample]:
        return gpu_samples(settings.node_id, station.facts.capacity.gpus, figures.for_the_owner())

    return Loopback(settings.metrics_port, _metrics(), samples)


def _metrics() -> Metrics:
    try:
        from gpunion.adapters.prometheus import PrometheusMetrics
    except ModuleNotFoundError as missing:
        return Uncounted(f"there is no Python package {missing.name!r} here")
    return PrometheusMetrics(())
