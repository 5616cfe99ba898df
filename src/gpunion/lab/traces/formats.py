"""Which format a file is in, told by its columns: a renamed file, or one of another week, reads the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpunion.lab.traces import demand_files, job_files, machine_files, supply_files
from gpunion.lab.traces.records import Demand, DownTime, Lifetime, LogIn, NodeChange, Supply, TraceJob
from gpunion.lab.traces.rows import Row, TraceError, read_header, read_rows

Record = Demand | Supply | NodeChange | LogIn | Lifetime | DownTime | TraceJob


class Kind(StrEnum):
    DEMAND = "demand"
    SUPPLY = "supply"
    NODE_CHANGES = "node changes"
    LOG_INS = "log-ins"
    LIFETIMES = "lifetimes"
    FAILURES = "failures"
    JOBS = "jobs"


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    kind: Kind
    columns: tuple[str, ...]
    read: Callable[[Iterable[Row]], Iterator[Record]]


FORMATS = (
    Format("helios demand", Kind.DEMAND, demand_files.HELIOS_COLUMNS, demand_files.read_helios),
    Format("active nodes", Kind.DEMAND, demand_files.ACTIVE_NODES_COLUMNS, demand_files.read_active_nodes),
    Format("skypilot changes", Kind.SUPPLY, supply_files.SKYPILOT_COLUMNS, supply_files.read_skypilot),
    Format("bamboo counts", Kind.SUPPLY, supply_files.AWS_COUNTS_COLUMNS, supply_files.read_aws_counts),
    Format("bamboo instances", Kind.SUPPLY, supply_files.GCP_COUNTS_COLUMNS, supply_files.read_gcp_counts),
    Format(
        "bamboo nodes", Kind.NODE_CHANGES, supply_files.NODE_EVENTS_COLUMNS, supply_files.read_node_events
    ),
    Format("google lifetimes", Kind.LIFETIMES, machine_files.GOOGLE_COLUMNS, machine_files.read_google),
    Format("log-ins", Kind.LOG_INS, machine_files.LOGIN_COLUMNS, machine_files.read_logins),
    Format("lanl failures", Kind.FAILURES, machine_files.LANL_COLUMNS, machine_files.read_lanl),
    Format("philly jobs", Kind.JOBS, job_files.PHILLY_COLUMNS, job_files.read_philly),
    Format("alibaba openb pods", Kind.JOBS, job_files.OPENB_COLUMNS, job_files.read_openb),
)


def format_of(path: Path) -> Format:
    """The format whose columns are all there; of several the one that names most."""
    header = set(read_header(path))
    fitting = [known for known in FORMATS if header.issuperset(known.columns)]
    if fitting:
        return max(fitting, key=lambda known: len(known.columns))
    nearest = max(FORMATS, key=lambda known: len(header.intersection(known.columns)) / len(known.columns))
    missing = ", ".join(column for column in nearest.columns if column not in header)
    raise TraceError(
        f"{path}: no format has the columns {', '.join(sorted(header))}",
        next_step=f"the nearest is '{nearest.name}', which also needs {missing}; docs/hazard.md lists all",
    )


def read_records(path: Path) -> Iterator[Record]:
    return format_of(path).read(read_rows(path))


def read_jobs(path: Path) -> Iterator[TraceJob]:
    """The jobs of a file of jobs."""
    known = format_of(path)
    if known.kind is not Kind.JOBS:
        jobs = "' or '".join(one.name for one in FORMATS if one.kind is Kind.JOBS)
        raise TraceError(f"{path} holds {known.kind.value}, not jobs", next_step=f"give a '{jobs}' file")
    for record in known.read(read_rows(path)):
        assert isinstance(record, TraceJob)
        yield record
