"""When machines are wanted back, drawn: in letters for a terminal, as SVG for a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpunion.cli.campus import Json
from gpunion.text import counted

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH, TOP, LEFT = 860, 70, 60
INK, FAINT, COLOUR = "#222222", "#999999", "#1b6ca8"
CELL, SIDE, ROW = 20, 180, 24
ROWS_MOST = 24


def week_lines(departures_per_h: Sequence[float]) -> list[str]:
    """A line a day, a letter an hour: the higher, the likelier it is wanted back then."""
    most = max(departures_per_h)
    lines = ["     0     6     12    18"]
    for day, name in enumerate(DAYS):
        hours = departures_per_h[24 * day : 24 * day + 24]
        lines.append(f"{name}  {''.join(_block(rate, most) for rate in hours)}")
    return [*lines, f"{BLOCKS[-1]} is {most:.3f} departures an hour"]


def node_svg(answer: Json) -> str:
    title = f"{answer['node']}: {based_on(answer)}"
    height = TOP + 7 * CELL + 120 + SIDE
    parts = [
        *_head(title, height),
        _text(LEFT, TOP - 14, "departures an hour, by hour of the week (darker: more)"),
        *_week(answer["departures_per_h"]),
    ]
    below = TOP + 7 * CELL + 70
    parts += [_text(LEFT, below - 14, "chance that it stays")]
    rows = [(f"{one['hours']:g} h", one["chance"]) for one in answer["stays"]]
    parts += _bars(rows or [("not lent now", 0.0)], below)
    parts += _calibration(answer["calibration"], LEFT + 500, below)
    return "\n".join([*parts, "</svg>", ""])


def campus_svg(answer: Json) -> str:
    shown = [node for node in answer["nodes"] if node["stays"]][:ROWS_MOST]
    height = TOP + max(SIDE + 60, ROW * max(1, len(shown)) + 20)
    rows = [(str(node["node"]), _stays(node, answer["horizon_h"])) for node in shown]
    parts = [
        *_head("When machines are wanted back", height),
        _text(LEFT, TOP - 14, f"chance that each stays for {answer['horizon_h']:g} hours"),
        *_bars(rows or [("no machine is lent now", 0.0)], TOP),
        *_calibration(answer["calibration"], LEFT + 500, TOP),
    ]
    return "\n".join([*parts, "</svg>", ""])


def based_on(node: Json) -> str:
    how = {
        "own": "its own week",
        "fleet": "the week of all machines, at its own rate",
        "flat": "its own rate, whatever the hour",
        "constant": "how often it left so far",
    }
    weeks = f"{node['weeks_seen']:.1f}"
    seen = f"{counted(node['departures_seen'], 'departure')} in {weeks} week{'' if weeks == '1.0' else 's'}"
    return f"{how.get(node['based_on'], node['based_on'])} ({seen})"


def _block(rate: float, most: float) -> str:
    return BLOCKS[min(len(BLOCKS) - 1, int(len(BLOCKS) * rate / most))] if most > 0 else BLOCKS[0]


def _stays(node: Json, hours: float) -> float:
    return next((float(one["chance"]) for one in node["stays"] if one["hours"] == hours), 0.0)


def _head(title: str, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="{INK}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LEFT, 26, title, size=15),
    ]


def _week(rates: Sequence[float]) -> list[str]:
    most = max(rates)
    parts = [_text(LEFT + hour * CELL, TOP + 7 * CELL + 16, str(hour), size=10) for hour in range(0, 24, 6)]
    for day, name in enumerate(DAYS):
        parts.append(_text(LEFT - 8, TOP + day * CELL + 14, name, anchor="end"))
        for hour in range(24):
            rate = rates[24 * day + hour]
            parts.append(
                f'<rect x="{LEFT + hour * CELL}" y="{TOP + day * CELL}" width="{CELL - 1}" '
                f'height="{CELL - 1}" fill="{COLOUR}" fill-opacity="{_share(rate, most):.2f}" '
                f'stroke="{FAINT}" stroke-width="0.3"><title>{name} {hour}:00, {rate:.3f}</title></rect>'
            )
    return [*parts, _text(LEFT + 24 * CELL + 12, TOP + 14, f"darkest: {most:.3f}")]


def _bars(rows: Sequence[tuple[str, float]], top: int) -> list[str]:
    parts = []
    for number, (name, chance) in enumerate(rows):
        y = top + number * ROW
        parts += [
            _text(LEFT + 92, y + 14, name[-16:], anchor="end"),
            f'<rect x="{LEFT + 100}" y="{y}" width="240" height="{ROW - 6}" fill="none" stroke="{FAINT}"/>',
            f'<rect x="{LEFT + 100}" y="{y}" width="{240 * chance:.1f}" height="{ROW - 6}" fill="{COLOUR}"/>',
            _text(LEFT + 348, y + 14, f"{chance:.0%}"),
        ]
    return parts


def _calibration(bins: Sequence[Json], left: int, top: int) -> list[str]:
    """Each circle is as many forecasts of a like chance; on the line they were right."""
    forecasts = sum(one["forecasts"] for one in bins)
    parts = [
        _text(left, top - 14, f"foretold against seen, {counted(forecasts, 'forecast')}"),
        f'<rect x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{INK}"/>',
        f'<line x1="{left}" y1="{top + SIDE}" x2="{left + SIDE}" y2="{top}" stroke="{FAINT}" '
        'stroke-dasharray="4 3"/>',
        _text(left, top + SIDE + 16, "0"),
        _text(left + SIDE, top + SIDE + 16, "foretold 1", anchor="end"),
    ]
    for one in bins:
        x, y = left + SIDE * one["foretold"], top + SIDE * (1 - one["seen"])
        radius = 3 + 9 * (one["forecasts"] / max(1, forecasts)) ** 0.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{COLOUR}" fill-opacity="0.6">'
            f"<title>{one['forecasts']} forecasts</title></circle>"
        )
    return parts


def _share(value: float, most: float) -> float:
    return value / most if most > 0 else 0.0


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
