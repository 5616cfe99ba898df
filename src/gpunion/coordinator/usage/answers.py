"""What is told of a time, made of the coordinator's records and of what its history remembers."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpunion.domain.nodes.node import NodePhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import BusySum, GpuPoint, PhaseSince, UsageSum
from gpunion.wire.v1 import convert
from gpunion.wire.v1 import usage as wire

from .book import PastPoints, Remembered
from .report import Asked, Interruptions, LabUse, PersonUse, Usage, usage_of
from .requests import PastRequest, requests_of

_HOUR_S = 3600.0
_WEEK_HOURS = 168
_PHASES = frozenset(phase.value for phase in NodePhase)


def usage_answer(state: CampusState, asked: Asked, remembered: Remembered) -> wire.UsageOut:
    found = usage_of(state, asked)
    of_machines = asked.user is None
    by_lab = defaultdict[str, list[UsageSum]](list)
    busy = defaultdict[str, list[BusySum]](list)
    for one in remembered.sums if of_machines else ():
        by_lab[one.lab].append(one)
    for told in remembered.busy if of_machines else ():
        busy[told.lab].append(told)
    labs = {*found.labs, *by_lab, *busy}
    shown = sorted(labs if asked.lab is None else labs & {asked.lab, *found.labs})
    causes = sorted(found.causes.values(), key=lambda one: (-one.count, one.cause.value))
    return wire.UsageOut(
        since=convert.shown_time(asked.since_s),
        until=convert.shown_time(asked.until_s),
        history_since=convert.shown_time_or_none(remembered.began_s),
        history_trouble=remembered.trouble,
        used_gpu_h=found.used_gpu_s / _HOUR_S,
        failed_gpu_h=found.failed_gpu_s / _HOUR_S,
        lost_gpu_h=sum(one.lost_gpu_s for one in causes) / _HOUR_S,
        kept_gpu_h=sum(one.kept_gpu_s for one in causes) / _HOUR_S,
        people=[_person(found.people[key]) for key in sorted(found.people)],
        labs=[_of_lab(lab, asked, found, by_lab, busy) for lab in shown],
        interruptions=[_interruptions(one) for one in causes],
    )


def _of_lab(
    lab: str,
    asked: Asked,
    found: Usage,
    by_lab: dict[str, list[UsageSum]],
    busy: dict[str, list[BusySum]],
) -> wire.LabUseOut:
    """Of other labs' machines nothing is told where one lab was asked for."""
    own = asked.lab in (None, lab)
    return _lab(lab, found, by_lab.get(lab, ()) if own else (), busy.get(lab, ()) if own else ())


def readable(state: CampusState) -> CampusState:
    """What the answers read of it, as it is now, for a thread beside the loop.

    Records are frozen values: a commit puts another record into a dictionary and changes none. The engine
    thinks on these dictionaries too, but takes everything back before anybody else has a turn in the loop. So
    copies that are made in the loop, in one go, are the committed state of one moment and stay so. They cost
    a pointer a record: some milliseconds for a hundred thousand jobs.
    """
    return CampusState(
        jobs=state.jobs.copy(),
        runs=state.runs.copy(),
        nodes=state.nodes.copy(),
        migrations=state.migrations.copy(),
    )


def requests_answer(state: CampusState, asked: Asked, phases: Sequence[PhaseSince]) -> wire.PastRequestList:
    found = [one for one in requests_of(state, asked) if asked.concerns(one.job)]
    shown = found[-wire.REQUESTS_MOST :]
    return wire.PastRequestList(
        since=convert.shown_time(asked.since_s),
        length_s=asked.until_s - asked.since_s,
        began_hour=_hour_of_week(int(asked.since_s)),
        requests=[_request(one, asked.since_s) for one in shown],
        left_out=len(found) - len(shown),
        machines=_machines(phases, asked.since_s),
    )


def gpus_answer(past: PastPoints) -> wire.GpuHistory:
    by_gpu = defaultdict[tuple[str, int], list[GpuPoint]](list)
    for one in past.told.points:
        by_gpu[one.node, one.index].append(one)
    return wire.GpuHistory(
        since=convert.shown_time(past.told.since_s),
        point_s=past.point_s,
        gpus=[_gpu(by_gpu[key]) for key in sorted(by_gpu)],
        left_out=past.told.left_out,
    )


def _gpu(points: list[GpuPoint]) -> wire.GpuPastOut:
    last = points[-1]
    return wire.GpuPastOut(
        node=last.node,
        index=last.index,
        uuid=last.uuid,
        model=last.model,
        points=[
            wire.GpuPointOut(
                at=convert.shown_time(one.at_s),
                seen_s=one.seen_s,
                utilisation=one.utilisation,
                memory_share=one.memory_share,
                temperature_c=one.temperature_c,
                power_w=one.power_w,
            )
            for one in points
        ],
    )


def _machines(phases: Iterable[PhaseSince], since_s: float) -> list[wire.OpenMachineOut]:
    by_node = defaultdict[str, list[wire.PhaseSinceOut]](list)
    for one in phases:
        if one.phase in _PHASES:
            by_node[one.node].append(wire.PhaseSinceOut(at_s=one.at_s - since_s, phase=one.phase))
    most = _most_each([len(known) for known in by_node.values()], wire.PHASES_MOST)
    return [wire.OpenMachineOut(node=node, phases=by_node[node][-most:]) for node in sorted(by_node)]


def _most_each(sizes: Iterable[int], most: int) -> int:
    """So that all together are no more, and nobody's are fewer for another's many. At least one each."""
    left, sizes = most, sorted(sizes)
    for before, size in enumerate(sizes):
        share = left // (len(sizes) - before)
        if size > share:
            return max(1, share)
        left -= size
    return max(sizes, default=1)


def _request(one: PastRequest, since_s: float) -> wire.PastRequestOut:
    spec, ended_s = one.job.spec, one.job.ended_s
    return wire.PastRequestOut(
        submit_s=one.job.submitted_s - since_s,
        first_ran_s=None if one.first_ran_s is None else one.first_ran_s - since_s,
        ended_s=None if ended_s is None else ended_s - since_s,
        work_s=one.work_s,
        expected_s=spec.expected_s,
        user=spec.owner,
        lab=spec.lab,
        priority=spec.priority.name.lower(),
        gang=1 if spec.seat is None else spec.seat.size,
        gpus=spec.request.gpus,
        vram_bytes=spec.request.vram_bytes,
        models=list(spec.request.models),
        exclude=list(spec.request.exclude_models),
        cpus=spec.request.cpus,
        memory_bytes=spec.request.memory_bytes,
    )


def _person(one: PersonUse) -> wire.PersonUseOut:
    return wire.PersonUseOut(
        user=one.user,
        lab=one.lab,
        submitted=one.submitted,
        succeeded=one.succeeded,
        failed=one.failed,
        used_gpu_h=one.used_gpu_s / _HOUR_S,
        borrowed_gpu_h=one.borrowed_gpu_s / _HOUR_S,
    )


def _lab(lab: str, found: Usage, sums: Iterable[UsageSum], busy: Iterable[BusySum]) -> wire.LabUseOut:
    one, sums, busy = found.labs.get(lab) or LabUse(lab=lab), list(sums), list(busy)
    open_gpu_s, busy_gpu_s = sum(one.lent_gpu_s for one in sums), sum(one.used_gpu_s for one in sums)
    by_hour = [0] * _WEEK_HOURS
    for each in sums:
        by_hour[_hour_of_week(each.at_s)] += each.departures
    return wire.LabUseOut(
        lab=lab,
        used_gpu_h=one.used_gpu_s / _HOUR_S,
        borrowed_gpu_h=one.borrowed_gpu_s / _HOUR_S,
        given_gpu_h=one.given_gpu_s / _HOUR_S,
        lent_gpu_h=one.lent_gpu_s / _HOUR_S,
        open_gpu_h=open_gpu_s / _HOUR_S,
        busy_gpu_h=busy_gpu_s / _HOUR_S,
        utilisation=busy_gpu_s / open_gpu_s if open_gpu_s else None,
        watched_gpu_h=sum(each.watched_gpu_s for each in busy) / _HOUR_S,
        own_gpu_h=sum(each.own_gpu_s for each in busy) / _HOUR_S,
        guest_gpu_h=sum(each.guest_gpu_s for each in busy) / _HOUR_S,
        departures=sum(by_hour),
        departures_by_hour=by_hour,
    )


def _hour_of_week(at_s: int) -> int:
    """Owners come and go by the clock on the wall."""
    local = time.localtime(at_s)
    return local.tm_wday * 24 + local.tm_hour


def _interruptions(one: Interruptions) -> wire.InterruptionsOut:
    return wire.InterruptionsOut(
        cause=one.cause.value,
        count=one.count,
        moved=one.moved,
        anew=one.anew,
        kept_gpu_h=one.kept_gpu_s / _HOUR_S,
        lost_gpu_h=one.lost_gpu_s / _HOUR_S,
        stood_still_s=one.stood_still_s,
        shipped_bytes=one.shipped_bytes,
    )
