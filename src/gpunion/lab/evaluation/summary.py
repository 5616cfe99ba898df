"""From runs to what the evaluation asks: a row per contender, a claim per promised figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpunion.lab.evaluation.contenders import ALL, OURS, REDUNDANT, SLURM_FIXED, SLURM_YOUNG
from gpunion.lab.evaluation.costs import Figures
from gpunion.lab.evaluation.statistics import Estimate, change, estimate
from gpunion.lab.evaluation.sweep import Plan, Result, Sources

GB = 1e9
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of the evaluation, from the raw figures of a run."""

    key: str
    label: str
    of: Callable[[Figures], float]
    form: str = "{:.1f}"


COLUMNS = (
    Column("work_lost_gpu_h", "work lost, GPU-h", lambda f: f["work_lost_gpu_s"] / HOUR_S),
    Column(
        "lost_share", "of useful work", lambda f: f["work_lost_gpu_s"] / max(f["useful_gpu_s"], 1.0), "{:.2%}"
    ),
    Column("stall_gpu_h", "stall, GPU-h", lambda f: f["stall_gpu_s"] / HOUR_S),
    Column("both_gpu_h", "both, GPU-h", lambda f: (f["work_lost_gpu_s"] + f["stall_gpu_s"]) / HOUR_S),
    Column("shipped_gb", "shipped, GB", lambda f: f["shipped_bytes"] / GB, "{:.0f}"),
    Column("staged_gb", "brought ahead, GB", lambda f: f["staged_bytes"] / GB, "{:.0f}"),
    Column("fetch_s", "fetching a move, mean s", lambda f: f["fetch_per_move_s"]),
    Column("downtime_median_s", "downtime a move, median s", lambda f: f["downtime_median_s"], "{:.0f}"),
    Column("downtime_s", "mean with queueing, s", lambda f: f["downtime_per_move_s"], "{:.0f}"),
    Column("recovery_s", "until back where it was, median s", lambda f: f["recovery_median_s"], "{:.0f}"),
    Column("interruptions", "interruptions", lambda f: f["interruptions"], "{:.0f}"),
    Column("announced_share", "announced", lambda f: f["announced_share"], "{:.0%}"),
    Column("in_time_share", "of these saved in time", lambda f: f["in_time_share"], "{:.0%}"),
    Column("homecoming_share", "came home", lambda f: f["homecoming_share"], "{:.0%}"),
    Column("slowdown", "slowdown, 2-4 interruptions", lambda f: f["slowdown_2_to_4"], "{:.1%}"),
    Column("utilisation", "GPUs in use", lambda f: f["utilisation_with_guests"], "{:.0%}"),
    Column("jobs_done", "jobs done", lambda f: f["jobs_done"], "{:.0f}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    contender: str
    label: str
    seeds: int
    estimates: dict[str, Estimate]
    x: float | None = None  # what was swept


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A figure that was promised. `wanted` is the most it may be."""

    name: str
    wanted: float
    got: Estimate
    note: str

    @property
    def reached(self) -> bool:
        return self.got.mean <= self.wanted


def rows(results: Iterable[Result], part: str, sweep: str | None = None) -> list[Row]:
    groups: dict[tuple[float | None, str], list[Result]] = {}
    for result in results:
        if result.part == part:
            groups.setdefault((_swept(result, sweep), result.contender), []).append(result)
    return [
        Row(
            contender=name,
            label=ALL[name].label,
            seeds=len(those),
            estimates={c.key: estimate([c.of(r.figures) for r in those]) for c in COLUMNS},
            x=x,
        )
        for (x, name), those in groups.items()
    ]


def in_time_by_notice(results: Iterable[Result], contender: str) -> list[tuple[float, int, int]]:
    """Notice, interruptions announced with it, and how many of those were saved in time; all seeds."""
    counts: dict[float, list[int]] = {}
    for result in results:
        if result.part == "notice" and result.contender == contender:
            told, saved = result.figures["announced"], result.figures["in_time"]
            of_notice = counts.setdefault(result.notices_s[0], [0, 0])
            of_notice[0] += int(told)
            of_notice[1] += int(saved)
    return [(notice_s, told, saved) for notice_s, (told, saved) in sorted(counts.items())]


def claims(results: Sequence[Result]) -> list[Claim]:
    """What the issue wants shown, against Slurm at its better interval and against redundancy."""
    figures = _main(results)
    ours, redundant = figures[OURS.name], figures[REDUNDANT.name]
    better = min((SLURM_YOUNG.name, SLURM_FIXED.name), key=lambda name: _total(figures[name]))
    slurm, label = figures[better], ALL[better].label
    share = ALL[REDUNDANT.name].redundant_share
    even = sum(f["work_lost_gpu_s"] for f in ours) / max(1.0, sum(f["useful_gpu_s"] for f in ours))
    return [
        _claim("work lost", -0.66, "work_lost_gpu_s", ours, slurm, f"against {label}, its better interval"),
        _claim("stall overhead", 0.0, "stall_gpu_s", ours, slurm, f"against {label}"),
        _claim("bytes shipped or brought ahead", 0.0, "sent_bytes", ours, slurm, f"against {label}"),
        _claim("downtime per move", -0.38, "downtime_median_s", ours, slurm, f"median, against {label}"),
        _claim(
            "until back where it was",
            -0.38,
            "recovery_median_s",
            ours,
            slurm,
            f"median of downtime and redone work, against {label}",
        ),
        _claim(
            "work lost",
            -0.38,
            "work_lost_gpu_s",
            ours,
            redundant,
            f"against redundancy at {share:.0%} redundant compute; even at {even:.1%}",
        ),
    ]


def as_json(plan: Plan, sources: Sources, results: Sequence[Result], took_s: float) -> dict[str, Any]:
    return {
        "plan": asdict(plan),
        "sources": {"owners": sources.owners.name, "jobs": sources.jobs.name},
        "took_s": round(took_s, 1),
        "departures": _departures(results),
        "claims": [
            {
                "name": c.name,
                "wanted": c.wanted,
                "got": c.got.shown(),
                "reached": c.reached,
                "note": c.note,
            }
            for c in claims(results)
        ],
        "tables": {
            part: [
                {"contender": r.contender, "x": r.x, **{k: e.shown() for k, e in r.estimates.items()}}
                for r in rows(results, part, part)
            ]
            for part in dict.fromkeys(result.part for result in results)
        },
        "runs": [asdict(result) for result in results],
    }


def _departures(results: Sequence[Result]) -> int:
    """Of machines, once per seed: every contender of the main table met the same."""
    return sum({r.seed: r.departures for r in results if r.part == "main"}.values())


def _main(results: Sequence[Result]) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {}
    for result in sorted(results, key=lambda result: result.seed):
        if result.part == "main":
            found.setdefault(result.contender, []).append(result.figures)
    return found


def _claim(
    name: str, wanted: float, key: str, ours: list[Figures], theirs: list[Figures], note: str
) -> Claim:
    got = change([figures[key] for figures in ours], [figures[key] for figures in theirs])
    return Claim(name=name, wanted=wanted, got=got, note=note)


def _total(figures: list[Figures]) -> float:
    """Lost and stood still together: the better interval is not the one that only saves more often."""
    return sum(f["work_lost_gpu_s"] + f["stall_gpu_s"] for f in figures)


def _swept(result: Result, sweep: str | None) -> float | None:
    match sweep:
        case "notice":
            return result.notices_s[0]
        case "unannounced":
            return result.unannounced_share
        case _:
            return None
