"""Who goes where when several must go at once: the assignment that is cheapest in all.

Shortest augmenting paths with potentials (Kuhn's method as Jonker and Volgenant do it), O(n² m). Written out
here because the coordinator would otherwise carry a library for forty lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

# Stands for "cannot": larger than any sum of seconds a plan could cost, small enough to keep differences.
CANNOT = 1e12


def cheapest(costs: Sequence[Sequence[float]]) -> tuple[int | None, ...]:
    """For every row its column, each column at most once; None where nothing it can have is left.

    `inf` means that a row cannot have a column. As many rows as possible get one.
    """
    if not costs:
        return ()
    places = len(costs[0])
    # A column of its own for every row: going nowhere, dearer than anything but impossible.
    padded = [[*(min(cost, CANNOT) for cost in row), *([CANNOT / 2] * len(costs))] for row in costs]
    column_of = _solve(padded)
    return tuple(
        column if column < places and costs[row][column] != inf else None
        for row, column in enumerate(column_of)
    )


def _solve(costs: Sequence[Sequence[float]]) -> list[int]:
    rows, columns = len(costs), len(costs[0])
    row_price, column_price = [0.0] * rows, [0.0] * columns
    row_of = [-1] * columns
    for start in range(rows):
        came_from, end = _shortest_path(costs, start, row_price, column_price, row_of)
        while end != -1:
            before = came_from[end]
            row_of[end] = start if before == -1 else row_of[before]
            end = before
    column_of = [0] * rows
    for column, row in enumerate(row_of):
        if row != -1:
            column_of[row] = column
    return column_of


def _shortest_path(
    costs: Sequence[Sequence[float]],
    start: int,
    row_price: list[float],
    column_price: list[float],
    row_of: list[int],
) -> tuple[list[int], int]:
    """A cheapest way from an unassigned row to a free column; raises the prices along it."""
    columns = len(column_price)
    distance, came_from, done = [inf] * columns, [-1] * columns, [False] * columns
    row, at, gone = start, -1, 0.0
    visited: list[tuple[int, float]] = []
    while True:
        visited.append((row, gone))
        for column in range(columns):
            if done[column]:
                continue
            way = gone + costs[row][column] - row_price[row] - column_price[column]
            if way < distance[column]:
                distance[column], came_from[column] = way, at
        at = min((c for c in range(columns) if not done[c]), key=lambda c: distance[c])
        gone, done[at] = distance[at], True
        if row_of[at] == -1:
            break
        row = row_of[at]
    for seen, when in visited:
        row_price[seen] += gone - when
    for column in range(columns):
        if done[column]:
            column_price[column] -= gone - distance[column]
    return came_from, at
