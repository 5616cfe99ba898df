"""Single machines: Google's preemptible lifetimes, a lab's log-ins, LANL's failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpunion.lab.traces.records import DownTime, Lifetime, LogIn
from gpunion.lab.traces.rows import Row

GOOGLE_COLUMNS = ("zone", "machine_type", "start_time", "lifetime_s", "end")
LOGIN_COLUMNS = ("time", "location")
LANL_COLUMNS = ("node", "down_from_epoch", "up_at_epoch")


def read_google(rows: Iterable[Row]) -> Iterator[Lifetime]:
    for row in rows:
        start = row.moment("start_time")
        offset = start.utcoffset()
        yield Lifetime(
            unit=f"{row.text('zone')}/{row.text('machine_type')}",
            from_s=start.timestamp(),
            lifetime_s=row.number("lifetime_s"),
            taken=row.one_of("end", ("preempted", "stopped_by_user")) == "preempted",
            utc_offset_s=offset.total_seconds() if offset else 0.0,
        )


def read_logins(rows: Iterable[Row]) -> Iterator[LogIn]:
    for row in rows:
        yield LogIn(unit=row.text("location"), at_s=row.epoch_s("time"))


def read_lanl(rows: Iterable[Row]) -> Iterator[DownTime]:
    """Nodes are called system.number."""
    for row in rows:
        node, from_s, to_s = row.text("node"), row.number("down_from_epoch"), row.number("up_at_epoch")
        if to_s < from_s:
            raise row.error("up_at_epoch: expected no earlier than down_from_epoch")
        yield DownTime(system=node.partition(".")[0], node=node, from_s=from_s, to_s=to_s)
