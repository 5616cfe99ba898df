"""A calibration plot as SVG, by hand: what was foretold against what was seen, and who gained how much."""

from __future__ import annotations

from html import escape
from typing import Any

Shown = dict[str, Any]

WIDTH, HEIGHT = 920, 440
SIDE = 320  # of the square in which the curves are
LEFT, TOP = 60, 60
BARS_LEFT = 580
BARS_WIDTH = 310
BAR_ROWS_MOST = 16
# Told apart by shape too, so that no colour is needed to read it.
SERIES = (("#1b6ca8", "circle"), ("#c05621", "square"), ("#4a7c3a", "triangle"))
INK, FAINT = "#222222", "#888888"


def calibration_svg(shown: Shown, title: str) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12" fill="{INK}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 24, title, size=15),
        _text(LEFT, 44, "Chance of a departure in later weeks, by tenths of the forecasts"),
        _text(BARS_LEFT, 44, "Gain over a constant rate, nats per departure"),
        *_axes(),
    ]
    for number, horizon in enumerate(shown["later"]["horizons"]):
        parts += _curve(horizon, *SERIES[number % len(SERIES)])
        parts += _legend(number, horizon, *SERIES[number % len(SERIES)])
    parts += _bars(shown)
    return "\n".join([*parts, "</svg>", ""])


def _axes() -> list[str]:
    right, bottom = LEFT + SIDE, TOP + SIDE
    parts = [_line(LEFT, bottom, right, TOP, FAINT, dashed=True)]
    for tenth in range(0, 11, 2):
        at = tenth / 10
        parts += [
            _line(_x(at), bottom, _x(at), bottom + 4, INK),
            _text(_x(at), bottom + 18, f"{at:.1f}", anchor="middle"),
            _line(LEFT - 4, _y(at), LEFT, _y(at), INK),
            _text(LEFT - 8, _y(at) + 4, f"{at:.1f}", anchor="end"),
        ]
    return [
        *parts,
        f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{INK}"/>',
        _text((LEFT + right) / 2, bottom + 38, "foretold", anchor="middle"),
        f'<text transform="translate({LEFT - 40} {(TOP + bottom) / 2}) rotate(-90)" '
        'text-anchor="middle">seen</text>',
    ]


def _curve(horizon: Shown, colour: str, shape: str) -> list[str]:
    points = [(_x(one["foretold"]), _y(one["seen"])) for one in horizon["reliability"]]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    return [line, *(_mark(x, y, colour, shape) for x, y in points)]


def _legend(number: int, horizon: Shown, colour: str, shape: str) -> list[str]:
    x, y = LEFT + SIDE + 16, TOP + 12 + number * 40
    hours = f"{horizon['horizon_h']:g} h"
    brier = f"Brier {horizon['brier']:.3f}, constant {horizon['constant_brier']:.3f}"
    return [
        _mark(x, y - 4, colour, shape),
        _text(x + 12, y, f"within {hours}"),
        _text(x + 12, y + 15, brier, size=10),
    ]


def _bars(shown: Shown) -> list[str]:
    later, left_out = shown["later"]["units"], shown["left_out"]["units"]
    units = [unit for unit in later if later[unit]["gain_nats"] is not None]
    units.sort(key=lambda unit: -later[unit]["departures"])
    units = units[:BAR_ROWS_MOST]
    pairs = [(unit, later[unit]["gain_nats"], _gain(left_out, unit)) for unit in units]
    most = max([0.1, *(abs(gain) for _, *gains in pairs for gain in gains)])
    names = BARS_LEFT + 110
    room = BARS_WIDTH - 150
    step = min(26.0, SIDE / max(1, len(pairs)))
    # Zero stands to the right only where somebody lost.
    lowest = min([0.0, *(gain for _, *gains in pairs for gain in gains)])
    zero = names + room * -lowest / (most - lowest)
    scale = room / (most - lowest)
    parts = [_line(zero, TOP, zero, TOP + step * len(pairs), INK)]
    for row, (unit, gain, left_gain) in enumerate(pairs):
        y = TOP + row * step
        parts += [
            _text(names - 8, y + step * 0.62, _short(unit), anchor="end", size=10),
            _bar(zero, y + step * 0.12, gain * scale, step * 0.34, SERIES[0][0]),
            _bar(zero, y + step * 0.50, left_gain * scale, step * 0.34, SERIES[1][0]),
            _text(names + room + 6, y + step * 0.62, f"{gain:.2f} / {left_gain:.2f}", size=10),
        ]
    y = TOP + step * len(pairs) + 20
    return [
        *parts,
        _bar(names, y - 9, 10, 10, SERIES[0][0]),
        _text(names + 16, y, f"later weeks: {shown['later']['gain_nats']:.3f} in all"),
        _bar(names, y + 9, 10, 10, SERIES[1][0]),
        _text(names + 16, y + 18, f"left out: {shown['left_out']['gain_nats']:.3f} in all"),
    ]


def _gain(units: Shown, unit: str) -> float:
    return float(units.get(unit, {}).get("gain_nats") or 0.0)


def _short(name: str) -> str:
    return name if len(name) <= 18 else "…" + name[-17:]


def _x(value: float) -> float:
    return LEFT + SIDE * value


def _y(value: float) -> float:
    return TOP + SIDE * (1 - value)


def _mark(x: float, y: float, colour: str, shape: str) -> str:
    match shape:
        case "circle":
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
        case "square":
            return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{colour}"/>'
        case _:
            corners = f"{x:.1f},{y - 4:.1f} {x - 4:.1f},{y + 3:.1f} {x + 4:.1f},{y + 3:.1f}"
            return f'<polygon points="{corners}" fill="{colour}"/>'


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    left = x + min(0.0, width)
    return (
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{abs(width):.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dash}/>'


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
