"""Every series of the coordinator. Names stay: dashboards and alerts are written against them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from gpunion.domain.jobs.job import JobPhase, Priority
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import WindowEnd
from gpunion.domain.system_tier import Tier
from gpunion.ports.metrics import Series, SeriesKind

# Of what should take milliseconds, and hurts when it takes seconds.
_SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# Of saves, moves and notices: from a second to the longest notices owners give.
_LONG_S = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# Of waiting for a place: also over a night and a weekend.
_WAIT_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0)


_CLASSES = tuple(priority.name.lower() for priority in Priority)


def _counter(name: str, help: str, *labels: str, of: Iterable[Iterable[str]] = ()) -> Series:
    """`of`: for each label the values it is known to have."""
    expected = tuple(product(*of)) if of else ()
    return Series(name=name, help=help, kind=SeriesKind.COUNTER, labels=labels, expected=expected)


def _gauge(name: str, help: str, *labels: str) -> Series:
    return Series(name=name, help=help, kind=SeriesKind.GAUGE, labels=labels)


def _histogram(
    name: str, help: str, bounds: tuple[float, ...], *labels: str, of: Iterable[Iterable[str]] = ()
) -> Series:
    expected = tuple(product(*of)) if of else ()
    kind = SeriesKind.HISTOGRAM
    return Series(name=name, help=help, kind=kind, labels=labels, bounds=bounds, expected=expected)


# --- the coordinator itself -----------------------------------------------------------------------

CYCLE = _histogram(
    "scheduler_cycle_seconds", "One decision: what an event means, and where waiting jobs go.", _SHORT_S
)
COMMIT = _histogram("commit_seconds", "One commit to the database.", _SHORT_S)
LAG = _histogram("event_loop_lag_seconds", "How much later than asked for the event loop woke up.", _SHORT_S)
AGENTS = _gauge("connected_agents", "Agents with a connection.")
QUEUE = _gauge("queue_jobs", "Jobs that are not over, by state.", "state")
VIOLATIONS = _counter("invariant_violations_total", "Broken invariants found by the audit after a commit.")
SET_ASIDE = _counter("set_aside_total", "Events that could not be handled and were set aside.")
STORE_FAULTS = _counter("store_faults_total", "Commits that the database refused at first.")
HISTORY_FAULTS = _counter("history_faults_total", "Times that the history of figures took nothing.")

# --- machines -------------------------------------------------------------------------------------

PROVIDERS = _gauge("provider_state", "Machines of the campus, by state.", "state")
GPUS = _gauge("gpus", "GPUs of machines that are there, by what becomes of them.", "state")
LEASE_AGE = _gauge("lease_age_seconds", "Since a machine was last heard.", "node")
CONTRIBUTION = _counter(
    "contribution_gpu_seconds_total", "GPU-seconds that guests have had of a lab's machines.", "lab"
)
RECLAIM = _histogram(
    "reclaim_gpu_free_seconds",
    "From an owner's word until nothing of a guest was left.",
    _LONG_S,
    "mode",
    of=[("notice", "kill")],
)

# --- jobs and their runs --------------------------------------------------------------------------

SUBMITTED = _counter("job_submitted_total", "Jobs that were accepted.")
JOBS_ENDED = _counter(
    "job_ended_total",
    "Jobs that are over, by how they ended.",
    "state",
    of=[(phase.value for phase in JobPhase if phase.over)],
)
PLACEMENT = _histogram(
    "placement_latency_seconds",
    "From a job's wait until a machine was told to start it.",
    _WAIT_S,
)
RUNS_STARTED = _counter(
    "run_started_total",
    "Runs whose program started, the job's first or again.",
    "start",
    of=[("first", "again")],
)
RUNS_ENDED = _counter("run_ended_total", "Runs that ended, by reason.", "reason", of=[EndReason])
INTERRUPTIONS = _counter(
    "interruption_total", "Jobs that had to go from where they were, by cause.", "cause", of=[Cause]
)
PREEMPTIONS = _counter(
    "preemption_total",
    "Jobs that had to make room, by the class of whom they made it for.",
    "for_class",
    of=[_CLASSES],
)
PREEMPTION_WAIT = _histogram(
    "preemption_wait_seconds",
    "From when room was begun to be made for a job until its program ran.",
    _LONG_S,
    "for_class",
    of=[_CLASSES],
)
WINDOWS_STARTED = _counter(
    "window_started_total", "Pieces of jobs that began in a window, by why it ends.", "end", of=[WindowEnd]
)
WINDOWS_ENDED = _counter(
    "window_ended_total",
    "Pieces that are over: with their window, with their job, or before.",
    "outcome",
    of=[("in_time", "hard_end", "finished", "interrupted")],
)
WINDOW_TIME = _histogram("window_seconds", "How long pieces of jobs ran in their windows.", _WAIT_S)
WINDOW_OVERRUN = _histogram(
    "window_overrun_seconds", "How long after the end of its window a piece was gone.", _LONG_S
)
MIGRATIONS = _counter(
    "migration_total",
    "Interruptions that are over: what the job went on from, and where.",
    "tier",
    "outcome",
    of=[("none", *Tier), ("moved", "resumed_in_place", "abandoned")],
)
DOWNTIME = _histogram("migration_downtime_seconds", "How long an interrupted job stood still.", _LONG_S)
MIGRATION_BYTES = _counter("migration_bytes_total", "Bytes that last saves of interrupted jobs moved.")
LOST_WORK = _counter(
    "lost_work_seconds_total",
    "Work done after the save a job went on from, by its interruption.",
    "reason",
    of=[Cause],
)

# --- checkpoints ----------------------------------------------------------------------------------

CHECKPOINTS = _counter(
    "checkpoint_total",
    "Checkpoints that are settled.",
    "tier",
    "outcome",
    of=[Tier, ("durable", "failed")],
)
CHECKPOINT_TIME = _histogram(
    "checkpoint_seconds",
    "Phases of a checkpoint: capture (asked until saved), stall (the program stood still), ship (saved until "
    "durable).",
    _LONG_S,
    "phase",
    of=[("capture", "stall", "ship")],
)
CHECKPOINT_BYTES = _counter(
    "checkpoint_bytes_total",
    "Bytes of durable checkpoints: state (all files), shipped (sent).",
    "kind",
    of=[("state", "shipped")],
)

COUNTED = (
    CYCLE, COMMIT, LAG, RECLAIM, SUBMITTED, JOBS_ENDED, PLACEMENT, RUNS_STARTED, RUNS_ENDED, INTERRUPTIONS,
    PREEMPTIONS, PREEMPTION_WAIT, WINDOWS_STARTED, WINDOWS_ENDED, WINDOW_TIME, WINDOW_OVERRUN, MIGRATIONS,
    DOWNTIME, MIGRATION_BYTES, LOST_WORK, CHECKPOINTS, CHECKPOINT_TIME, CHECKPOINT_BYTES, HISTORY_FAULTS,
)  # fmt: skip
SHOWN = (
    AGENTS, QUEUE, VIOLATIONS, SET_ASIDE, STORE_FAULTS, PROVIDERS, GPUS, LEASE_AGE, CONTRIBUTION,
)  # fmt: skip
