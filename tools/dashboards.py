"""Grafana's dashboards as tables of panels: `make docs` writes deploy/grafana from them.

Every query begins with series of `gpunion_`; a test plays the demo under a real Prometheus and asks each one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PER_ROW, WIDTH, HEIGHT = 3, 8, 8  # of the 24 columns that Grafana has
SCHEMA_VERSION = 39
RATE = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    title: str
    unit: str  # one of Grafana's
    queries: tuple[tuple[str, str], ...]  # each with what its lines are called
    told: str = ""


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()  # a name, and the query whose label of that name it takes


def one(query: str, legend: str = "") -> tuple[tuple[str, str], ...]:
    return ((query, legend),)


def quantiles(
    series: str, by: str = "", shares: tuple[float, ...] = (0.5, 0.95)
) -> tuple[tuple[str, str], ...]:
    group = f"le, {by}" if by else "le"
    legend = f"{{{{{by}}}}} " if by else ""
    return tuple(
        (
            f"histogram_quantile({share}, sum by ({group}) (rate(gpunion_{series}_bucket[{RATE}])))",
            f"{legend}{share:.0%}",
        )
        for share in shares
    )


def rate(series: str, by: str, times: str = "") -> tuple[tuple[str, str], ...]:
    return one(f"sum by ({by}) (rate(gpunion_{series}[{RATE}])){times}", f"{{{{{by}}}}}")


CAMPUS = Dashboard(
    uid="gpunion-campus",
    title="GPUnion: campus",
    panels=(
        Panel("GPUs", "short", one("gpunion_gpus", "{{state}}"), "What a guest who came now would find."),
        Panel(
            "Lent GPUs in use", "percentunit",
            one('gpunion_gpus{state="used"} / ignoring(state) '
                'clamp_min(sum without (state) (gpunion_gpus{state=~"used|free"}), 1)', "in use"),
        ),
        Panel("Machines", "short", one("gpunion_provider_state", "{{state}}")),
        Panel("Jobs that are not over", "short", one("gpunion_queue_jobs", "{{state}}")),
        Panel("Lent by lab, GPUs at a time", "short", rate("contribution_gpu_seconds_total", "lab")),
        Panel("From an owner's word to a free GPU", "s", quantiles("reclaim_gpu_free_seconds", "mode")),
        Panel("Work lost, seconds an hour", "short", rate("lost_work_seconds_total", "reason", " * 3600")),
        Panel("One decision of the scheduler", "s", quantiles("scheduler_cycle_seconds", shares=(0.5, 0.99))),
        Panel("One commit", "s", quantiles("commit_seconds", shares=(0.5, 0.99))),
        Panel("Lag of the event loop", "s", quantiles("event_loop_lag_seconds", shares=(0.5, 0.99))),
        Panel("Connected agents", "short", one("gpunion_connected_agents", "agents")),
        Panel(
            "Faults", "short",
            (
                ("gpunion_invariant_violations_total", "broken invariants"),
                ("gpunion_set_aside_total", "events set aside"),
                ("gpunion_store_faults_total", "refused commits"),
                ("gpunion_history_faults_total", "refused history"),
            ),
            "Nothing of this is usual.",
        ),
        Panel("The coordinator's processor", "percentunit",
              one(f'rate(process_cpu_seconds_total{{job="gpunion"}}[{RATE}])', "of a core")),
        Panel("The coordinator's memory", "bytes",
              one('process_resident_memory_bytes{job="gpunion"}', "resident")),
    ),
)  # fmt: skip

NODE = Dashboard(
    uid="gpunion-node",
    title="GPUnion: machines",
    variables=(("node", "gpunion_lease_age_seconds"),),
    panels=(
        Panel("Last heard", "s", one('gpunion_lease_age_seconds{node=~"$node"}', "{{node}}")),
        Panel(
            "GPUs at work", "percentunit",
            one('gpunion_gpu_utilisation_ratio{node=~"$node"}', "{{node}} {{model}} {{uuid}}"),
            "While a guest is on it, unless its owner shows all.",
        ),
        Panel(
            "GPU memory taken", "percentunit",
            one('gpunion_gpu_memory_used_bytes{node=~"$node"} / gpunion_gpu_memory_bytes{node=~"$node"}',
                "{{node}} {{model}} {{uuid}}"),
        ),
        Panel("Temperature", "celsius",
              one('gpunion_gpu_temperature_celsius{node=~"$node"}', "{{node}} {{model}} {{uuid}}")),
        Panel("Power", "watt", one('gpunion_gpu_power_watts{node=~"$node"}', "{{node}} {{model}} {{uuid}}")),
        Panel("Power by machine", "watt",
              one('sum by (node) (gpunion_gpu_power_watts{node=~"$node"})', "{{node}}")),
    ),
)  # fmt: skip

JOBS = Dashboard(
    uid="gpunion-jobs",
    title="GPUnion: jobs",
    panels=(
        Panel("Handed in, an hour", "short",
              one(f"rate(gpunion_job_submitted_total[{RATE}]) * 3600", "jobs")),
        Panel("Ended, an hour", "short", rate("job_ended_total", "state", " * 3600")),
        Panel("Wait for a place", "s", quantiles("placement_latency_seconds")),
        Panel("Programs started, an hour", "short", rate("run_started_total", "start", " * 3600")),
        Panel("Runs ended, an hour", "short", rate("run_ended_total", "reason", " * 3600")),
        Panel("Interrupted, an hour", "short", rate("interruption_total", "cause", " * 3600")),
        Panel("Went on, an hour", "short", rate("migration_total", "outcome", " * 3600")),
        Panel("Went on from, an hour", "short", rate("migration_total", "tier", " * 3600"),
              "`none`: from the beginning."),
        Panel("Stood still when interrupted", "s", quantiles("migration_downtime_seconds")),
        Panel("Moved by last saves", "Bps", one(f"rate(gpunion_migration_bytes_total[{RATE}])", "sent")),
        Panel("Made room, an hour", "short", rate("preemption_total", "for_class", " * 3600")),
        Panel("Until room was made", "s", quantiles("preemption_wait_seconds", "for_class")),
        Panel("Windows begun, an hour", "short", rate("window_started_total", "end", " * 3600")),
        Panel("Windows ended, an hour", "short", rate("window_ended_total", "outcome", " * 3600")),
        Panel("Saves, an hour", "short", rate("checkpoint_total", "outcome", " * 3600")),
        Panel("Phases of a save", "s", quantiles("checkpoint_seconds", "phase")),
        Panel("Bytes of saves", "Bps", rate("checkpoint_bytes_total", "kind")),
    ),
)  # fmt: skip

DASHBOARDS = {"campus": CAMPUS, "node": NODE, "jobs": JOBS}


def dashboard_text(dashboard: Dashboard) -> str:
    return json.dumps(_plain(dashboard), indent=2) + "\n"


def _plain(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["gpunion"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), *(_variable(*one) for one in dashboard.variables)]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def _source() -> dict[str, Any]:
    return {"type": "datasource", "name": "source", "label": "Prometheus", "query": "prometheus"}


def _variable(name: str, series: str) -> dict[str, Any]:
    return {
        "type": "query",
        "name": name,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": f"label_values({series}, {name})",
        "includeAll": True,
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    row, column = divmod(number, PER_ROW)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.told,
        "datasource": source,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": WIDTH * column, "y": HEIGHT * row},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": source, "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }
