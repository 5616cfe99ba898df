"""What was lent and used, as tables for people and as comma-separated lines for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from gpunion.cli.campus import Json
from gpunion.cli.output.screen import Screen, Table
from gpunion.cli.output.times import clock_time, time_span
from gpunion.cli.quantities import shown_duration

NOBODY = "(no lab)"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LETTERS = ".123456789+"  # departures of an hour: none, so many, more
CSV_COLUMNS = (
    "kind", "lab", "user", "submitted", "succeeded", "failed", "used_gpu_h", "borrowed_gpu_h",
    "given_gpu_h", "lent_gpu_h", "open_gpu_h", "busy_gpu_h", "watched_gpu_h", "own_gpu_h", "guest_gpu_h",
    "departures",
)  # fmt: skip
# Of a file that cannot be read as what it was: no room on the disk mends that.
DAMAGED = ("not a database", "malformed", "decompress", "another length", "has no column", "no such column")
NO_ROOM = ("full", "No space", "quota", "I/O error", "unable to open", "Permission", "readonly", "Read-only")
CAUSES = {
    "owner_reclaim": "owner wanted it back",
    "owner_kill": "owner ended it at once",
    "sick_gpu": "a GPU was out of order",
    "node_lost": "machine was lost",
    "lease_ended": "machine lost touch",
    "homecoming": "went home",
    "preempted": "made room",
    "start_trouble": "did not start",
    "self_saved": "saved itself, to go on",
    "guest_lost": "program vanished",
    "output_lost": "output was lost",
    "spoiled_save": "save was of no use",
    "gang": "a member of its gang went",
}


def show_usage(answer: Json, screen: Screen) -> None:
    screen.line(f"{time_span(answer['since'], answer['until'])}, in GPU-hours")
    screen.line()
    if not (answer["people"] or answer["labs"]):
        screen.line("Nobody used or lent anything then. Next: gpunion usage --since 30d looks further back.")
    if answer["people"]:
        screen.table(
            Table(
                columns=("WHO", "LAB", "JOBS", "DONE", "FAILED", "USED", "BORROWED"),
                rows=[_person(one) for one in answer["people"]],
                folds_first=True,
                spare=("FAILED", "DONE", "BORROWED", "LAB"),
            )
        )
        screen.line()
    if answer["labs"]:
        screen.table(
            Table(
                columns=("LAB", "USED", "BORROWED", "LENT", "TO ITS OWN", "OPEN", "BUSY", "WANTED BACK"),
                rows=[_lab(one) for one in answer["labs"]],
                folds_first=True,
                spare=("TO ITS OWN", "WANTED BACK", "BORROWED", "OPEN"),
            )
        )
        screen.line()
        _show_side_by_side(answer["labs"], screen)
    _show_work(answer, screen)
    _show_departures(answer["labs"], screen)
    _show_history(answer, screen)


def _person(one: Json) -> list[str]:
    counts = [str(one[name]) for name in ("submitted", "succeeded", "failed")]
    return [
        one["user"],
        one["lab"] or NOBODY,
        *counts,
        _hours(one["used_gpu_h"]),
        _hours(one["borrowed_gpu_h"]),
    ]


def _lab(one: Json) -> list[str]:
    return [
        one["lab"] or NOBODY,
        _hours(one["used_gpu_h"]),
        _hours(one["borrowed_gpu_h"]),
        _hours(one["lent_gpu_h"]),
        _hours(one["given_gpu_h"] - one["lent_gpu_h"]),
        _hours(one["open_gpu_h"]),
        "-" if one["utilisation"] is None else f"{one['utilisation']:.0%}",
        f"{one['departures']}x" if one["departures"] else "-",
    ]


def _show_side_by_side(labs: Sequence[Json], screen: Screen) -> None:
    """What GPUs did for their owners, and what they do since guests come; of those that a driver sees."""
    seen = [lab for lab in labs if lab["watched_gpu_h"]]
    if not seen:
        return
    together = {
        name: sum(lab[name] for lab in seen) for name in ("watched_gpu_h", "own_gpu_h", "guest_gpu_h")
    }
    rows: list[Sequence[str]] = [_at_work(lab["lab"] or NOBODY, lab) for lab in seen]
    if len(seen) > 1:
        rows.append(_at_work("(all)", together))
    screen.line("At work, of the time that GPUs were there:")
    columns = ("LAB", "SEEN", "FOR OWNERS", "FOR GUESTS", "BOTH")
    screen.table(Table(columns=columns, rows=rows, folds_first=True, spare=("SEEN",)))
    own, both = _share(together, "own_gpu_h"), _share(together, "own_gpu_h", "guest_gpu_h")
    screen.line(f"Without lending they would have worked {own} of the time; lent they worked {both}.")
    screen.line()


def _at_work(name: str, of: Json) -> list[str]:
    return [
        name,
        _hours(of["watched_gpu_h"]),
        _share(of, "own_gpu_h"),
        _share(of, "guest_gpu_h"),
        _share(of, "own_gpu_h", "guest_gpu_h"),
    ]


def _share(of: Json, *names: str) -> str:
    return f"{sum(of[name] for name in names) / of['watched_gpu_h']:.0%}"


def _show_work(answer: Json, screen: Screen) -> None:
    if not (answer["used_gpu_h"] or answer["interruptions"]):
        return
    screen.line(
        f"Work: {_hours(answer['used_gpu_h'])} GPU-hours in all. "
        f"Jobs that failed had {_hours(answer['failed_gpu_h'])} of it."
    )
    if answer["interruptions"]:
        kept_gpu_h, lost_gpu_h = answer["kept_gpu_h"], answer["lost_gpu_h"]
        screen.line()
        screen.line(
            f"Runs that were interrupted then had done {_hours(kept_gpu_h + lost_gpu_h)} since they began:"
        )
        screen.line(f"{_hours(kept_gpu_h)} was kept, and {_hours(lost_gpu_h)} lost.")
        screen.table(
            Table(
                columns=("INTERRUPTED BECAUSE", "RUNS", "MOVED", "ANEW", "KEPT", "LOST", "STOOD STILL"),
                rows=[_interruption(one) for one in answer["interruptions"]],
                folds_first=True,
                spare=("STOOD STILL", "MOVED", "ANEW"),
            )
        )
    screen.line()


def _interruption(one: Json) -> list[str]:
    counts = [str(one[name]) for name in ("count", "moved", "anew")]
    hours = [_hours(one["kept_gpu_h"]), _hours(one["lost_gpu_h"])]
    return [
        CAUSES.get(str(one["cause"]), str(one["cause"])),
        *counts,
        *hours,
        shown_duration(one["stood_still_s"]),
    ]


def _show_departures(labs: Sequence[Json], screen: Screen) -> None:
    """Of all labs shown together: a letter an hour."""
    by_hour = [sum(hour) for hour in zip(*(lab["departures_by_hour"] for lab in labs), strict=True)]
    if not any(by_hour):
        return
    screen.line("Wanted back, by the hour of the week:")
    screen.line("     0     6     12    18")
    for day, name in enumerate(DAYS):
        hours = by_hour[24 * day : 24 * day + 24]
        screen.line(f"{name}  {''.join(LETTERS[min(count, len(LETTERS) - 1)] for count in hours)}")
    screen.line()


def _show_history(answer: Json, screen: Screen) -> None:
    since = answer["history_since"]
    if since is not None and since > answer["since"]:
        screen.line(f"OPEN, BUSY and WANTED BACK are counted from {clock_time(since)} on.")
    if answer["history_trouble"]:
        screen.line(f"Their history has trouble: {answer['history_trouble']}.")
        screen.line(f"Next: {_way_out(answer['history_trouble'])}")


def _way_out(trouble: str) -> str:
    """By the words of SQLite and the system, which the coordinator passes on."""
    if any(word in trouble for word in DAMAGED):
        return "move that file away with the coordinator stopped: it begins a new one, without what was."
    if any(word in trouble for word in NO_ROOM):
        return "df -h on the coordinator, and whether it may write where that file is."
    return "the coordinator's log has more of it, at usage_history."


def _hours(gpu_h: float) -> str:
    return f"{gpu_h:,.1f}" if gpu_h >= 1.0 or not gpu_h else f"{gpu_h:.3f}"


def usage_as_csv(answer: Json) -> Iterator[str]:
    """One line a person and one a lab; a column that is not of its kind is empty."""
    yield ",".join(CSV_COLUMNS)
    for kind in ("person", "lab"):
        for one in answer["people" if kind == "person" else "labs"]:
            yield _csv_line([kind, *(_cell(one.get(name, "")) for name in CSV_COLUMNS[1:])])


def _cell(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    # A spreadsheet would take it for a formula.
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()
