"""The report as Markdown tables, pictures and one page that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpunion.lab.evaluation.contenders import ALL, IN_SWEEPS, OURS
from gpunion.lab.evaluation.plots import Bar, Line, bars, lines
from gpunion.lab.evaluation.statistics import Estimate
from gpunion.lab.evaluation.summary import COLUMNS, Claim, Column, Row, claims, in_time_by_notice, rows
from gpunion.lab.evaluation.sweep import Plan, Result

Table = tuple[list[str], list[list[str]]]

TITLES = {
    "main": "Everybody on the same campus",
    "ablation": "What each mechanism gives",
    "mechanism": "The other mechanisms, each off in turn",
    "published campus": "On GPUnion's published eleven servers",
    "notice": "By notice length",
    "unannounced": "By the share of departures nobody announces",
}
X_LABELS = {"notice": "notice, s", "unannounced": "unannounced share"}
STYLE = """body{font:15px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0;font-size:13px}td,th{border:1px solid #ccc;padding:3px 7px;
text-align:right}td:first-child,th:first-child{text-align:left}tr.ours{font-weight:bold}
.no{color:#a02020}.scroll{overflow-x:auto}"""


def tables(results: Sequence[Result]) -> dict[str, Table]:
    found: dict[str, Table] = {"claims": claims_table(claims(results))}
    for part in dict.fromkeys(result.part for result in results):
        sweep = part if part in X_LABELS else None
        found[part] = _rows_table(rows(results, part, sweep), X_LABELS.get(part))
    saved = in_time_by_notice(results, OURS.name)
    if saved:
        found["saved in time"] = (
            ["notice, s", "interruptions announced", "saved in time", "share"],
            [[f"{n:g}", str(t), str(s), f"{s / t:.0%}" if t else "-"] for n, t, s in saved],
        )
    return found


def pictures(results: Sequence[Result]) -> dict[str, str]:
    drawn: dict[str, str] = {}
    main = rows(results, "main")
    for key, unit in (("work_lost_gpu_h", "GPU-hours"), ("stall_gpu_h", "GPU-hours"), ("recovery_s", "s")):
        label = _column(key).label
        drawn[f"main-{key}"] = bars(f"{label[0].upper()}{label[1:]}", unit, _bars(main, key))
    ablation = rows(results, "ablation")
    if ablation:
        drawn["ablation"] = bars("Work lost, by mechanism", "GPU-hours", _bars(ablation, "work_lost_gpu_h"))
    for part, x_label in X_LABELS.items():
        swept = rows(results, part, part)
        if swept:
            drawn[part] = lines(
                f"Work lost: {TITLES[part].lower()}", x_label, "GPU-hours lost", _lines(swept)
            )
    return drawn


def markdown(results: Sequence[Result], plan: Plan) -> str:
    parts = [f"# Evaluation\n\n{_preface(results, plan)}\n"]
    for name, (head, body) in tables(results).items():
        parts.append(f"## {TITLES.get(name, name.capitalize())}\n\n{_markdown_table(head, body)}\n")
    return "\n".join(parts)


def html(results: Sequence[Result], plan: Plan) -> str:
    drawn = pictures(results)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>GPUnion: evaluation</title>",
        f"<style>{STYLE}</style><h1>Evaluation</h1><p>{escape(_preface(results, plan))}</p>",
    ]
    for name, (head, body) in tables(results).items():
        parts.append(f"<h2>{escape(TITLES.get(name, name.capitalize()))}</h2>")
        parts += [f"<figure>{svg}</figure>" for key, svg in drawn.items() if key.split("-")[0] == name]
        parts.append(f"<div class=scroll>{_html_table(head, body)}</div>")
    return "\n".join(parts) + "\n"


def claims_table(found: Sequence[Claim]) -> Table:
    head = ["figure", "wanted", "got (95 % interval)", "reached", "how"]
    return head, [
        [c.name, f"{c.wanted:+.0%}", _percent(c.got), "yes" if c.reached else "NO", c.note] for c in found
    ]


def _preface(results: Sequence[Result], plan: Plan) -> str:
    seeds = sorted({result.seed for result in results})
    departures = {r.seed: r.departures for r in results if r.part == "main"}
    return (
        f"{plan.horizon_s / 86_400:g} simulated days of the reference campus, seeds "
        f"{', '.join(map(str, seeds))}; {sum(departures.values())} departures of machines. Means over seeds; "
        "± is half of a 95 % interval. Comparisons are paired seed by seed: same owners, same work."
    )


def _rows_table(of_part: Sequence[Row], x_label: str | None) -> Table:
    head = [*([x_label] if x_label else []), "policy", *(column.label for column in COLUMNS)]
    body = []
    for row in sorted(of_part, key=lambda row: -1.0 if row.x is None else row.x):
        x = [] if x_label is None or row.x is None else [f"{row.x:g}"]
        body.append([*x, row.label, *(_cell(row, column) for column in COLUMNS)])
    return head, body


def _cell(row: Row, column: Column) -> str:
    value = row.estimates[column.key]
    text = column.form.format(value.mean)
    return text if value.half is None else f"{text} ± {column.form.format(value.half)}"


def _percent(value: Estimate) -> str:
    half = "" if value.half is None else f" ± {value.half:.0%}"
    return f"{value.mean:+.0%}{half}"


def _bars(of_part: Sequence[Row], key: str) -> list[Bar]:
    return [Bar(label=r.label, value=r.estimates[key], ours=r.contender == OURS.name) for r in of_part]


def _lines(swept: Sequence[Row]) -> list[Line]:
    return [
        Line(
            label=ALL[contender.name].label,
            points=tuple(
                sorted(
                    (
                        (row.x or 0.0, row.estimates["work_lost_gpu_h"])
                        for row in swept
                        if row.contender == contender.name
                    ),
                    key=lambda point: point[0],
                )
            ),
        )
        for contender in IN_SWEEPS
    ]


def _column(key: str) -> Column:
    return next(column for column in COLUMNS if column.key == key)


def _markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    out = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in body)]
    return "\n".join(f"| {line} |" for line in out)


def _html_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines_ = [f"<tr>{top}</tr>"]
    for row in body:
        mark = " class=ours" if OURS.label in row else ""
        cells = "".join(f"<td{' class=no' if cell == 'NO' else ''}>{escape(cell)}</td>" for cell in row)
        lines_.append(f"<tr{mark}>{cells}</tr>")
    return f"<table>{''.join(lines_)}</table>"
