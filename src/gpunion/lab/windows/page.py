"""From runs to tables: what decides first, then everybody at it, then along loads, shares and campuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any

from gpunion.lab.evaluation.costs import Figures
from gpunion.lab.evaluation.statistics import Estimate, estimate
from gpunion.lab.evaluation.sweep import Sources
from gpunion.lab.windows.campuses import Place
from gpunion.lab.windows.contenders import ALL, OFF, OURS
from gpunion.lab.windows.lies import WORDS
from gpunion.lab.windows.plan import DECIDING, FEW_SEEDS, LYING, SOME_SEEDS, Plan, Result
from gpunion.sim.scenario.values import DAY_S

MINUTE_S, HOUR_S = 60.0, 3600.0
Table = tuple[list[str], list[list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    label: str
    of: Callable[[Figures], float]
    form: str = "{:.1f}"


def _key(key: str, scale: float = 1.0) -> Callable[[Figures], float]:
    return lambda figures: figures[key] / scale


COLUMNS = (
    Column(label="wait, mean min", of=_key("wait_s", MINUTE_S), form="{:.0f}"),
    Column(label="p50", of=_key("wait_p50_s", MINUTE_S), form="{:.0f}"),
    Column(label="p95", of=_key("wait_p95_s", MINUTE_S), form="{:.0f}"),
    Column(label="longest of one GPU, h", of=_key("wait_max_s_1gpu", HOUR_S)),
    Column(label="response, h", of=_key("response_s", HOUR_S)),
    Column(label="slowdown", of=_key("slowdown")),
    Column(label="useful GPU-h", of=_key("useful_gpu_h"), form="{:.0f}"),
    Column(label="lost and stalled GPU-h", of=_key("lost_gpu_h")),
    Column(label="jobs done", of=_key("jobs_done"), form="{:.0f}"),
    Column(label="moves a useful GPU-h", of=_key("moves_per_gpu_h"), form="{:.2f}"),
    Column(label="GB a useful GPU-h", of=_key("gb_per_gpu_h")),
    Column(label="turns after which the tenant stayed", of=_key("stayed_share"), form="{:.0%}"),
    Column(label="two GPUs: wait, min", of=_key("wait_s_2gpu", MINUTE_S), form="{:.0f}"),
    Column(
        label="four GPUs, early: wait, min",
        of=_key("early_wait_s_4gpu", MINUTE_S),
        form="{:.0f}",
    ),
    Column(label="of these never began", of=_key("early_never_4gpu")),
    Column(label="Jain's index of users", of=_key("fairness"), form="{:.2f}"),
    Column(label="pieces missed", of=_key("missed_share"), form="{:.1%}"),
    Column(label="hard ends", of=_key("hard_ends"), form="{:.0f}"),
    Column(label="overrun", of=_key("overruns"), form="{:.0f}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A figure that was asked for. `most`: what it may be at most; `least`: at least."""

    name: str
    got: Estimate
    most: float | None = None
    least: float | None = None
    decides: bool = False

    @property
    def reached(self) -> bool:
        above = self.most is None or self.got.mean <= self.most
        return above and (self.least is None or self.got.mean >= self.least)

    @property
    def wanted(self) -> str:
        return f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"


def claims(results: Sequence[Result]) -> list[Claim]:
    ours = of_contender(results, OURS.name, DECIDING)
    off = of_contender(results, OFF.name, DECIDING)
    shortest = of_contender(results, "shortest", DECIDING)
    overruns = [figures["overruns"] for figures in ours]
    found = [
        Claim(name="mean wait, of what it is today", got=ratio("wait_s", ours, off), most=0.25, decides=True),
        Claim(
            name="useful work, of what is done today",
            got=ratio("useful_gpu_h", ours, off),
            least=0.97,
            decides=True,
        ),
        Claim(name="hard ends overrun", got=Estimate(sum(overruns), None), most=0.0, decides=True),
        Claim(name="95th of a hundred waits, of today's", got=ratio("wait_p95_s", ours, off), most=0.1),
        Claim(
            name="longest wait of a job on one GPU, hours",
            got=estimate([figures["wait_max_s_1gpu"] / HOUR_S for figures in ours]),
            most=6.0,
        ),
        Claim(name="slowdown, of today's", got=ratio("slowdown", ours, off), most=0.35),
        Claim(name="response, of today's", got=ratio("response_s", ours, off), most=0.7),
        Claim(name="lost and stalled, of today's", got=ratio("lost_gpu_h", ours, off), most=1.15),
        Claim(name="four GPUs: mean wait, of today's", got=ratio("early_wait_s_4gpu", ours, off), most=0.25),
        Claim(
            name="four GPUs, a day before the end: never began",
            got=estimate([figures["early_never_4gpu"] for figures in ours]),
            most=0.0,
        ),
        Claim(name="pieces missed", got=estimate(_told([f["missed_share"] for f in ours])), most=0.05),
    ]
    if shortest:
        got = ratio("wait_s", ours, shortest)
        found.append(Claim(name="mean wait, of shortest first's with true lengths", got=got, most=0.5))
    return [*found, *_elsewhere(results)]


def _elsewhere(results: Sequence[Result]) -> list[Claim]:
    quarter, alone = replace(DECIDING, share=0.25), replace(DECIDING, load=1.0)
    found = []
    for place, key, name, limit in (
        (quarter, "atomizable_wait_s", "a quarter of the jobs in windows: their wait, of today's", 0.5),
        (quarter, "rigid_wait_s", "the others' wait, of today's", 1.0),
        (replace(DECIDING, kind="gangs"), "gang_wait_s", "wait of gangs, of today's", 1.0),
    ):
        ours, off = of_contender(results, OURS.name, place), of_contender(results, OFF.name, place)
        if ours:
            found.append(Claim(name=name, got=ratio(key, ours, off), most=limit))
    ours, off = of_contender(results, OURS.name, alone), of_contender(results, OFF.name, alone)
    if ours:
        found.append(Claim(name="useful work at load 1", got=ratio("useful_gpu_h", ours, off), least=0.99))
    sliced = replace(DECIDING, kind="slices")
    ours, declared = of_contender(results, OURS.name, sliced), of_contender(results, "no-memory", sliced)
    if ours:
        got = ratio("wait_s", ours, declared)
        found.append(Claim(name="slices: wait, of that with declared memory", got=got, most=0.6))
        failed = estimate([figures["failed"] for figures in ours])
        found.append(Claim(name="slices: jobs failed for want of memory", got=failed, most=0.0))
    return found


def of_contender(results: Sequence[Result], name: str, place: Place, *, beside: str = "") -> list[Figures]:
    """By seed; of those only that this other one was seen with as well."""
    here = [result for result in results if result.part != LYING and _like(result.place, place)]
    seeds = {result.place.seed for result in here if result.contender == (beside or name)}
    those = [result for result in here if result.contender == name and result.place.seed in seeds]
    return [result.figures for result in sorted(those, key=lambda result: result.place.seed)]


def _like(one: Place, other: Place) -> bool:
    return replace(one, seed=0, horizon_s=0.0) == replace(other, seed=0, horizon_s=0.0)


def ratio(key: str, ours: Sequence[Figures], theirs: Sequence[Figures]) -> Estimate:
    """Paired seed by seed: both met the same owners and the same work."""
    pairs = [(mine[key], other[key]) for mine, other in zip(ours, theirs, strict=True)]
    return estimate(_told([mine / other for mine, other in pairs if other and not isnan(other)]))


def _told(values: Sequence[float]) -> list[float]:
    return [value for value in values if not isnan(value)]


def tables(results: Sequence[Result]) -> dict[str, Table]:
    found = {"What decides, and what was hoped for": claims_table(claims(results))}
    places = list(dict.fromkeys(replace(result.place, seed=0) for result in results if result.part != LYING))
    for place in places:
        found[_title(place)] = _everybody_at(results, place)
    gains = lies_table(results)
    if gains[1]:
        found["What lies gain"] = gains
    return found


def claims_table(found: Sequence[Claim]) -> Table:
    head = ["figure", "wanted", "got (95 % interval)", "reached"]
    return head, [
        [
            f"{claim.name}{' (decides)' if claim.decides else ''}",
            claim.wanted,
            shown(claim.got, "{:.3g}"),
            "yes" if claim.reached else "NO",
        ]
        for claim in found
    ]


def _title(place: Place) -> str:
    words = [f"load {place.load:g}", f"{place.share:.0%} of the jobs in windows"]
    if place.kind == "foretold":
        words.append(f"{place.foretold:.0%} of the announced departures foretold")
    usual = DECIDING
    words += [f"noise {place.noise:.0%}"] if place.noise != usual.noise else []
    words += [f"coming up takes {place.begin:g} times as long"] if place.begin != usual.begin else []
    words.append(f"{place.horizon_s / DAY_S:g} days")
    return f"Campus {place.kind}: {', '.join(words)}"


def _everybody_at(results: Sequence[Result], place: Place) -> Table:
    head = ["who", "wait, of today's", "useful work, of today's", *(column.label for column in COLUMNS)]
    body = []
    for name in ALL:
        figures = of_contender(results, name, place)
        if figures:
            off = of_contender(results, OFF.name, place, beside=name)
            paired = [
                shown(ratio(key, figures, off), form) if off else "-"
                for key, form in (("wait_s", "{:.2f}"), ("useful_gpu_h", "{:.3f}"))
            ]
            body.append([ALL[name].label, *paired, *(_cell(figures, column) for column in COLUMNS)])
    return head, body


def _cell(figures: Sequence[Figures], column: Column) -> str:
    values = _told([column.of(one) for one in figures])
    return shown(estimate(values), column.form) if values else "-"


def shown(value: Estimate, form: str) -> str:
    text = form.format(value.mean)
    return text if value.half is None else f"{text} ± {form.format(value.half)}"


def lies_table(results: Sequence[Result]) -> Table:
    """How much sooner those who lie have what they wanted, of the time that the truth takes them."""
    head = ["who", "gains, windows off", "gains, windows on", "on does not exceed off"]
    body = []
    for lie, words in WORDS.items():
        gains = [gain(results, lie, name) for name in (OFF.name, OURS.name)]
        if gains[0] is not None and gains[1] is not None:
            more = _more(results, lie)
            body.append([words, *(shown(one, "{:+.1%}") for one in gains if one is not None), more])
    return head, body


def gain(results: Sequence[Result], lie: str, contender: str) -> Estimate | None:
    values = _gains(results, lie, contender)
    return estimate(values) if values else None


def _gains(results: Sequence[Result], lie: str, contender: str) -> list[float]:
    told = {r.place: r.figures for r in results if r.lie == lie and r.contender == contender}
    truth = {r.place: r.figures for r in results if not r.lie and r.contender == contender}
    key = "liars_response_s"
    return [1 - told[place][key] / truth[place][key] for place in sorted(told, key=str) if place in truth]


def _more(results: Sequence[Result], lie: str) -> str:
    """Paired: what the lie gains with windows, less what it gains without."""
    on, off = _gains(results, lie, OURS.name), _gains(results, lie, OFF.name)
    more = estimate([mine - other for mine, other in zip(on, off, strict=True)])
    sure = more.mean > 0 and (more.half is None or more.mean > more.half)
    return f"{'NO' if sure else 'yes'} ({shown(more, '{:+.1%}')})"


def markdown(results: Sequence[Result], plan: Plan, took_s: float) -> str:
    seeds = ", ".join(map(str, plan.seeds))
    parts = [
        "# Windows, measured\n",
        f"{len(results)} simulated campuses in {took_s / 60:.0f} min; what decides with seeds {seeds}, its "
        f"other contenders with the first {min(SOME_SEEDS, len(plan.seeds))}, all else with the first "
        f"{min(FEW_SEEDS, len(plan.seeds))}. Means over seeds; ± is half of a 95 % "
        "interval; ratios are paired by seed. Early: handed in at least a day before the end.\n",
    ]
    for title, (head, body) in tables(results).items():
        lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in body)]
        parts.append(f"## {title}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n")
    return "\n".join(parts)


def as_json(plan: Plan, sources: Sources, results: Sequence[Result], took_s: float) -> dict[str, Any]:
    return {
        "plan": asdict(plan),
        "sources": {"owners": sources.owners.name, "jobs": sources.jobs.name},
        "took_s": round(took_s, 1),
        "campuses": len(results),
        "claims": [
            {
                "name": claim.name,
                "wanted": claim.wanted,
                "got": claim.got.shown(),
                "reached": claim.reached,
                "decides": claim.decides,
            }
            for claim in claims(results)
        ],
        "tables": {title: {"head": head, "rows": body} for title, (head, body) in tables(results).items()},
        "runs": [asdict(result) for result in results],
    }
