"""Who lent and used how much, what became of the work, and when machines were wanted back."""

from __future__ import annotations

from pydantic import Field

from gpunion.wire.v1.names import Lab, Name
from gpunion.wire.v1.strict import Answer, Strict

WEEK_S = 7 * 86_400.0
YEAR_S = 366 * 86_400.0
REQUESTS_MOST = 10_000
POINTS_MOST = 50_000
PHASES_MOST = 50_000


class UsageQuery(Strict):
    """`for_s`: how far back. Of a lab: its people's jobs and its machines; of a user: their jobs."""

    for_s: float = Field(default=WEEK_S, gt=0, le=YEAR_S)
    lab: Lab | None = None
    user: Name | None = None


class PersonUseOut(Answer):
    user: str
    lab: str
    submitted: int
    succeeded: int
    failed: int
    used_gpu_h: float
    borrowed_gpu_h: float


class LabUseOut(Answer):
    """`open_gpu_h`: of GPUs that were lent, since `history_since`; of it, `busy_gpu_h` guests had. A machine
    that is paused lends, too."""

    lab: str
    used_gpu_h: float
    borrowed_gpu_h: float
    given_gpu_h: float
    lent_gpu_h: float
    open_gpu_h: float
    busy_gpu_h: float
    utilisation: float | None  # null where nothing was open
    watched_gpu_h: float  # of GPUs whose driver was asked how busy they are; as machines say in sums
    own_gpu_h: float  # of it, at work without a guest
    guest_gpu_h: float  # of it, at work for guests
    departures: int
    departures_by_hour: list[int]  # of the week's 168 hours, from Monday 0:00 where the coordinator is


class PastRequestOut(Answer):
    """Moments are seconds after `since`. `work_s`: at the reference card's speed; null: it never ran."""

    submit_s: float
    first_ran_s: float | None
    ended_s: float | None
    work_s: float | None
    expected_s: float | None
    user: str
    lab: str
    priority: str
    gang: int
    gpus: int
    vram_bytes: int
    models: list[str]
    exclude: list[str]
    cpus: float
    memory_bytes: int


class PhaseSinceOut(Answer):
    at_s: float  # after `since`; negative: it was so when that time began
    phase: str


class OpenMachineOut(Answer):
    node: str
    phases: list[PhaseSinceOut]


class PastRequestList(Answer):
    since: str
    length_s: float
    began_hour: int  # of the week, where the coordinator is
    requests: list[PastRequestOut]
    left_out: int  # older ones, beyond what one answer has
    machines: list[OpenMachineOut]  # those whose owners let their comings and goings be kept


class GpuHistoryQuery(Strict):
    """Of one machine, within the last day: by the minute. Else by the hour."""

    for_s: float = Field(default=WEEK_S, gt=0, le=YEAR_S)
    node: Name | None = None


class GpuPointOut(Answer):
    """`utilisation` is a mean, the rest the most; null: nobody saw it. Of a time without a point nothing was
    seen."""

    at: str  # when its minute or hour began
    seen_s: float  # how much of that time
    utilisation: float | None
    memory_share: float | None
    temperature_c: float | None
    power_w: float | None


class GpuPastOut(Answer):
    node: str
    index: int
    uuid: str
    model: str
    points: list[GpuPointOut]


class GpuHistory(Answer):
    since: str  # from then on it is all there is: as asked, or later where `left_out`
    point_s: int  # what a point is of: 60 or 3600
    gpus: list[GpuPastOut]
    left_out: bool  # older points, beyond what one answer has


class InterruptionsOut(Answer):
    """Of runs that were interrupted in that time, and all that they had done since they began."""

    cause: str
    count: int
    moved: int
    anew: int
    kept_gpu_h: float
    lost_gpu_h: float
    stood_still_s: float
    shipped_bytes: int


class UsageOut(Answer):
    since: str
    until: str
    history_since: str | None  # what was open and when machines were wanted back is known from then on
    history_trouble: str  # why it is not written or read now; empty: it is
    used_gpu_h: float  # in that time
    failed_gpu_h: float  # of it, by jobs that failed
    lost_gpu_h: float = Field(description="of all that runs had done that were interrupted in that time")
    kept_gpu_h: float = Field(description="of the same, since they began, however long ago that was")
    people: list[PersonUseOut]
    labs: list[LabUseOut]
    interruptions: list[InterruptionsOut]
