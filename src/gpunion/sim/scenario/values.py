"""What a simulation is told: machines, jobs, owners, troubles, waits. Values; `file` reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.gang import Seat, member_id, member_ids
from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.resources import MIB
from gpunion.domain.system_tier import SystemAbility
from gpunion.domain.timing import Timing

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    id: NodeId
    facts: NodeFacts
    downlink_bps: float
    clock_rate: float = 1.0
    clock_offset_s: float = 0.0
    joins_s: float = 0.0


class Parks(StrEnum):
    """What comes of moving its GPU memory away."""

    WELL = "well"
    NOT = "not"  # its driver refuses, as with several processes on several GPUs
    NEVER_DONE = "never-done"  # it is given up when its time is over


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPhase:
    from_share: float
    gpu_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a job does, as far as anybody outside can see it. `step_s` is at reference speed."""

    steps: int
    step_s: float
    capture_s: float = 1.0  # stands still this long for a save
    state_bytes: int = 64 * MIB
    delta_bytes: int = 64 * MIB  # what a later checkpoint of the same job adds to the vault
    boot_s: float = 1.0
    answers_saves: bool = True
    heeds_term: bool = True
    leaves_after_final: bool = True  # exits with 85 (the contract); else it works on until it is ended
    exit_code: int = 0
    fails_at_step: int | None = None  # exits with `exit_code` there
    output_bytes: int = 0
    parks: Parks = Parks.WELL
    tells_steps: bool = True  # else nobody but itself knows how far it is
    ahead: float = 1.0  # it says that it is so many times as far
    noise: float = 0.0  # of its pace from run to run and of single steps: a lognormal deviation
    # What it needs of each GPU's memory, from which part of its steps on; more than there is ends it.
    memory: tuple[MemoryPhase, ...] = ()
    heeds_windows: bool = True  # stops by itself in time to be saved when its window ends
    answers_after_s: float = 0.0  # asked to save, it goes on for so long first
    tells_memory_bytes: int | None = None  # whatever it needs, it says this
    tells_step_s: float | None = None  # and of its steps
    counts_down: bool = False  # it tells how many steps are left
    save_growth: float = 0.0  # every save takes longer than the one before by this part of the first

    def memory_bytes(self, step: int, since: int = 0) -> int:
        """The most it has needed of a GPU by then, in a run that began with that step."""
        return max((need for at, need in self._needs(since) if at <= step), default=0)

    def fits_until(self, gpu_bytes: int, since: int = 0) -> int | None:
        """The step from which on it needs more than that; None: it never does."""
        return min((at for at, need in self._needs(since) if need > gpu_bytes), default=None)

    def _needs(self, since: int) -> Iterator[tuple[int, int]]:
        """From which step on how much, without what was over when a run began."""
        begins = [int(one.from_share * self.steps) for one in self.memory]
        for one, (at, over_at) in zip(self.memory, pairwise([*begins, self.steps + 1]), strict=True):
            if over_at > since:
                yield max(at, since), one.gpu_bytes

    def told(self, step: int) -> int:
        if not self.tells_steps:
            return 0
        return self.steps - step if self.counts_down else step

    def told_progress(self, step: int) -> float:
        return min(1.0, self.ahead * self.told(step) / max(1, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    id: JobId
    spec: JobSpec
    program: Program
    submit_s: float = 0.0
    stop_s: float | None = None  # its user loses patience

    @property
    def handed_in(self) -> bool:
        """Of a gang the first member is; the others come with it."""
        return self.spec.seat is None or self.spec.seat.rank == 0

    @property
    def ids(self) -> tuple[JobId, ...]:
        """Of all members that come with it."""
        return (self.id,) if self.spec.seat is None else member_ids(self.id, self.spec.seat)


def in_gang(plan: JobPlan, size: int) -> tuple[JobPlan, ...]:
    """The plans of all members of a gang of such jobs; of a gang of one, the job itself."""
    if size == 1:
        return (plan,)
    return tuple(
        replace(
            plan,
            id=member_id(plan.id, rank),
            spec=replace(plan.spec, seat=Seat(size=size, rank=rank)),
        )
        for rank in range(size)
    )


# Of a modelled machine that dumps whole guests; all that can are alike.
DUMPS = SystemAbility(able=True, why_not="", kind="modelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAct:
    """One word of an owner. `do`: reclaim, kill, pause, resume, leave, rejoin; or what their terms foretell:
    that the machine is lent for `notice_s` more, or that nobody can say."""

    at_s: float
    do: str
    notice_s: float | None = None  # None: what the terms say
    gpu: int | None = None  # reclaim and resume: this one alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Weekly hours in which the owner works on the machine. Monday is day 0; time 0 is Monday midnight."""

    days: tuple[int, ...]
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomOwner:
    mean_shared_s: float
    mean_away_s: float
    announced_share: float = 0.7  # the rest come as kills
    notices_s: tuple[float, ...] = (10.0, 30.0, 60.0)
    paused_share: float = 0.1  # visits that only pause
    leaving_share: float = 0.0  # visits after which the machine leaves the campus, and joins again later


@dataclass(frozen=True, slots=True, kw_only=True)
class SignHabit:
    """How an owner can be seen to come, and that somebody is seen of whom nothing follows."""

    before_visits: float = 0.0  # the share of visits that a sign is shown ahead of
    ahead_s: float = 600.0  # on average
    idle_per_day: float = 0.0
    idle_s: float = 600.0  # on average


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerPlan:
    node_id: NodeId
    acts: tuple[OwnerAct, ...] = ()
    hours: tuple[Hours, ...] = ()
    hours_notice_s: float = 60.0
    random: RandomOwner | None = None
    signs: SignHabit | None = None  # None: the machine tells nothing of its owner


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTrouble:
    at_s: float
    kind: str
    node_id: NodeId | None = None
    for_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TroublePlan:
    """Chances per frame, and happenings per hour (over all nodes). All end at `heal_s`."""

    heal_s: float | None = None  # None: they go on to the end, and invariant 10 is not judged
    loss: float = 0.0
    duplication: float = 0.0
    delay: float = 0.0
    reorder: float = 0.0
    coordinator_crashes_per_h: float = 0.0
    agent_crashes_per_h: float = 0.0
    node_crashes_per_h: float = 0.0
    connection_breaks_per_h: float = 0.0
    partitions_per_h: float = 0.0
    slow_disks_per_h: float = 0.0
    full_disks_per_h: float = 0.0
    clock_jumps: bool = False  # a machine that reboots comes back with another idea of the time
    wiped_share: float = 0.0  # of the machines that reboot: those that come back installed anew
    spoiled_share: float = 0.0  # of the saves: those that nobody can go on from
    scripted: tuple[ScriptedTrouble, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiarPlan:
    """A node whose machine is sound and whose word is not."""

    node_id: NodeId
    lie_share: float = 0.2  # of what its agent says
    made_up_per_s: float = 0.5  # frames that nothing in the world stands behind
    from_s: float = 0.0
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPlan:
    core_bps: float = 10e9
    building_bps: float = 1e9
    vault_bps: float = 10e9
    latency_s: float = 0.005
    background_mean: float = 0.0  # share of building and core links that others use
    background_every_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    seed: int
    horizon_s: float
    nodes: tuple[NodePlan, ...]
    jobs: tuple[JobPlan, ...]
    owners: tuple[OwnerPlan, ...] = ()
    troubles: TroublePlan = field(default_factory=TroublePlan)
    network: NetworkPlan = field(default_factory=NetworkPlan)
    timing: Timing = field(default_factory=Timing)
    coordinator_rate: float = 1.0
    liars: tuple[LiarPlan, ...] = ()
