"""Two kinds of pictures, drawn by hand: bars with their intervals, and lines over what was swept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gpunion.lab.evaluation.statistics import Estimate

WIDTH = 860
INK, FAINT, GRID = "#222222", "#777777", "#e4e4e4"
# Told apart by their marks as well, so that no colour is needed.
COLOURS = ("#1b6ca8", "#c05621", "#4a7c3a", "#7a4b94")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    label: str
    value: Estimate
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    label: str
    points: tuple[tuple[float, Estimate], ...]


def bars(title: str, unit: str, entries: Sequence[Bar]) -> str:
    left, right, row, top = 250, 110, 26, 48
    height = top + row * len(entries) + 24
    most = max([1e-9, *(e.value.mean + (e.value.half or 0.0) for e in entries)])
    scale = (WIDTH - left - right) / most
    parts = [_text(16, 26, title, size=15)]
    for number, entry in enumerate(entries):
        y = top + number * row
        mean_x, half = left + entry.value.mean * scale, entry.value.half or 0.0
        low_x = left + max(0.0, entry.value.mean - half) * scale
        high_x = mean_x + half * scale
        parts += [
            _text(left - 10, y + 16, entry.label, anchor="end", bold=entry.ours),
            f'<rect x="{left}" y="{y + 4}" width="{max(0.0, mean_x - left):.1f}" height="{row - 9}" '
            f'fill="{COLOURS[0] if entry.ours else "#9bb4c7"}"/>',
            _line(low_x, y + row / 2, high_x, y + row / 2, INK),
            _line(low_x, y + 9, low_x, y + row - 9, INK),
            _line(high_x, y + 9, high_x, y + row - 9, INK),
            _text(max(mean_x, high_x) + 8, y + 17, f"{entry.value.mean:.3g}", size=11),
        ]
    parts += [
        _line(left, top, left, top + row * len(entries), INK),
        _text(left, height - 8, f"{unit}; bars are means over seeds, whiskers 95 % intervals", size=11),
    ]
    return _svg(height, title, parts)


def lines(title: str, x_label: str, y_label: str, series: Sequence[Line]) -> str:
    """The swept values stand at equal distances: notices go from nothing to ten minutes."""
    left, top, wide, high = 70, 50, 500, 260
    xs = sorted({x for line in series for x, _ in line.points})
    most = max([1e-9, *(e.mean + (e.half or 0.0) for line in series for _, e in line.points)])

    def x_at(x: float) -> float:
        return left + wide * (xs.index(x) + 0.5) / len(xs)

    def y_at(value: float) -> float:
        return top + high * (1 - max(0.0, value) / most)

    parts = [_text(16, 26, title, size=15)]
    for tick in range(5):
        value = most * tick / 4
        parts += [
            _line(left, y_at(value), left + wide, y_at(value), GRID),
            _text(left - 8, y_at(value) + 4, f"{value:.3g}", anchor="end", size=11),
        ]
    for x in xs:
        parts.append(_text(x_at(x), top + high + 18, f"{x:g}", anchor="middle", size=11))
    for number, line in enumerate(series):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        path = " ".join(f"{x_at(x):.1f},{y_at(e.mean):.1f}" for x, e in line.points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        # Neighbouring whiskers would hide each other.
        shift = (number - (len(series) - 1) / 2) * 5
        for x, e in line.points:
            at, half = x_at(x) + shift, e.half or 0.0
            parts += [
                _line(at, y_at(e.mean - half), at, y_at(e.mean + half), colour),
                f'<circle cx="{x_at(x):.1f}" cy="{y_at(e.mean):.1f}" r="3.5" fill="{colour}"/>',
            ]
        legend_y = top + 14 + number * 22
        parts += [
            f'<line x1="{left + wide + 20}" y1="{legend_y - 4}" x2="{left + wide + 50}" y2="{legend_y - 4}" '
            f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>',
            _text(left + wide + 58, legend_y, line.label, size=11),
        ]
    parts += [
        _line(left, top, left, top + high, INK),
        _line(left, top + high, left + wide, top + high, INK),
        _text(left + wide / 2, top + high + 38, x_label, anchor="middle"),
        f'<text transform="translate(18 {top + high / 2}) rotate(-90)" text-anchor="middle" '
        f'font-size="12">{escape(y_label)}</text>',
    ]
    return _svg(top + high + 50, title, parts)


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" font-family="sans-serif" font-size="12" fill="{INK}" role="img">'
    )
    ground = f'<rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *parts, "</svg>", ""])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )
