"""Between the API's models and domain values. Times become RFC 3339 here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, cast

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase, Counted
from gpunion.domain.jobs.gang import Seat, member_ids
from gpunion.domain.jobs.job import CheckpointWish, DurablePoint, Job, JobPhase, JobSpec, Priority
from gpunion.domain.jobs.migration import Migration
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.nodes.withheld import WithheldGpu, withheld_of
from gpunion.domain.protocol.frames import Preparing, SaveNote
from gpunion.domain.reasons.reason import Reason, Verdict, told
from gpunion.domain.reasons.wording import TROUBLE_IN_WORDS
from gpunion.domain.resources import Request
from gpunion.domain.system_tier import Tier
from gpunion.domain.timing import Timing
from gpunion.wire.v1 import campus, jobs
from gpunion.wire.v1 import job_requests as wishes


def shown_time(at_s: float) -> str:
    moment = datetime.fromtimestamp(at_s, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown_time_or_none(at_s: float | None) -> str | None:
    return None if at_s is None else shown_time(at_s)


def spec_from(job: wishes.JobIn, owner: str) -> JobSpec:
    asked = job.resources
    return JobSpec(
        name=job.name,
        command=tuple(job.command),
        entrypoint=None if job.entrypoint is None else tuple(job.entrypoint),
        owner=owner,
        lab=job.lab,
        request=Request(
            gpus=asked.gpus,
            vram_bytes=asked.vram,
            models=tuple(asked.models),
            exclude_models=tuple(asked.exclude),
            compute_capability=asked.compute_capability,
            cuda=asked.cuda,
            cpus=asked.cpus,
            memory_bytes=asked.memory,
            network=job.network == "allowed",
        ),
        environment=tuple(sorted(job.environment.items())),
        bundle=job.bundle,
        priority=Priority[job.priority.upper()],
        preemptible=job.preemptible,
        atomizable=job.atomizable,
        windows=job.windows.wish(),
        checkpoint=CheckpointWish(
            max_interval_s=job.longest_between_saves_s,
            min_interval_s=job.checkpoint.min_interval_s,
            tier=Tier(job.checkpoint.tier),
            command=tuple(job.checkpoint.command),
            signal=job.checkpoint.signal,
            encrypt=job.checkpoint.encrypt,
        ),
        expected_s=job.expected_s,
        finish_within_s=job.finish_within_s,
        lockfile=job.lockfile,
        packages=job.packages,
        image=job.image,
        seat=Seat(size=job.gang) if job.gang > 1 else None,
        session=None if job.session is None else job.session.asked(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    """What a job's own record does not say of it."""

    phase: JobPhase
    run: Run | None = None  # the living one
    live: tuple[int, float] | None = None  # step and progress
    preparing: Preparing | None = None
    saving: jobs.UnderWayOut | None = None
    finishing: jobs.FinishingOut | None = None
    moves: int = 0  # how often it has gone on elsewhere
    room_for: JobId | None = None  # whom it made room for, while it does not run
    leaves_by_s: float | None = None  # when its machine is wanted back
    pieces: jobs.PiecesOut | None = None  # of a job that runs in windows


def job_out(job: Job, now: JobNow) -> jobs.JobOut:
    spec, run, live = job.spec, now.run, now.live
    return jobs.JobOut(
        id=job.id,
        name=spec.name,
        owner=spec.owner,
        lab=spec.lab,
        phase=now.phase.value,
        priority=spec.priority.name.lower(),
        command=list(spec.command),
        entrypoint=None if spec.entrypoint is None else list(spec.entrypoint),
        resources=_resources_out(spec.request),
        bundle=spec.bundle,
        submitted_at=shown_time(job.submitted_s),
        ended_at=shown_time_or_none(job.ended_s),
        epoch=job.epoch,
        node_id=run.node_id if run else None,
        home=job.home,
        moves=now.moves,
        durable=_durable_out(job.durable),
        live=jobs.LiveOut(run_id=run.id, step=live[0], progress=live[1]) if run and live else None,
        lockfile=spec.lockfile,
        packages=spec.packages,
        image=job.image.image.ref if job.image else None,
        preparing=jobs.PreparingOut(**asdict(now.preparing)) if now.preparing else None,
        saving=now.saving,
        finishing=now.finishing,
        leaves_by=shown_time_or_none(now.leaves_by_s),
        room_for=now.room_for,
        exit_code=job.exit_code,
        output=job.output,
        places=list(spec.places),
        gang=_gang_out(job),
        session=spec.session.kind.value if spec.session else None,
        pieces=now.pieces,
    )


def _gang_out(job: Job) -> jobs.GangOut | None:
    if (seat := job.spec.seat) is None:
        return None
    return jobs.GangOut(rank=seat.rank, size=seat.size, members=list(member_ids(job.id, seat)))


def job_detail(
    shown: jobs.JobOut, spec: JobSpec, runs: Iterable[Run], migrations: Iterable[Migration]
) -> jobs.JobDetail:
    return jobs.JobDetail(
        **dict(shown),
        environment=dict(spec.environment),
        # Not checked again: what was accepted once is shown, whatever is asked of new jobs by now.
        checkpoint=wishes.CheckpointIn.model_construct(
            max_interval_s=spec.checkpoint.max_interval_s,
            min_interval_s=spec.checkpoint.min_interval_s,
            tier=spec.checkpoint.tier.value,
            command=list(spec.checkpoint.command),
            signal=cast(wishes.SaveSignal, spec.checkpoint.signal),
            encrypt=spec.checkpoint.encrypt,
        ),
        expected_s=spec.expected_s,
        finish_within_s=spec.finish_within_s,
        preemptible=spec.preemptible,
        atomizable=spec.atomizable,
        windows=wishes.WindowsIn.of(spec.windows),
        runs=[run_out(run) for run in runs],
        migrations=[migration_out(migration) for migration in migrations],
    )


def run_out(run: Run) -> jobs.RunOut:
    return jobs.RunOut(
        id=run.id,
        node_id=run.node_id,
        epoch=run.epoch,
        phase=run.phase.value,
        gpus=list(run.grant.gpu_indices),
        ordered_at=shown_time(run.ordered_s),
        started_at=shown_time_or_none(run.started_s),
        ended_at=shown_time_or_none(run.ended_s),
        end_reason=run.end_reason.value if run.end_reason else None,
        restored_from=run.restored_from,
        resumed_step=run.resumed_step,
        last_step=run.last_step,
        checkpoints=run.checkpoints,
        parked_at=shown_time_or_none(run.parked_s if run.living else None),
    )


def migration_out(migration: Migration) -> jobs.MigrationOut:
    return jobs.MigrationOut(
        id=migration.id,
        cause=migration.cause.value,
        phase=migration.phase.value,
        source_node=migration.source_node,
        destination=migration.destination,
        started_at=shown_time(migration.started_s),
        deadline_at=shown_time_or_none(migration.deadline_s),
        stopped_at=shown_time_or_none(migration.stopped_s),
        resumed_at=shown_time_or_none(migration.resumed_s),
        downtime_s=migration.downtime_s,
        steps_redone=migration.steps_redone if migration.counted is Counted.STEPS else None,
        work_redone_s=migration.steps_redone if migration.counted is Counted.SECONDS else None,
        shipped_bytes=migration.shipped_bytes,
        fell_back=migration.fell_back,
        room_for=migration.room_for,
        way=migration.way,
        left_after_s=migration.left_after_s,
        tier=migration.tier.value if migration.tier else None,
    )


UNDER_WAY = (CheckpointPhase.REQUESTED, CheckpointPhase.CAPTURED)


def checkpoint_out(
    checkpoint: Checkpoint,
    node_id: str,
    ready_on: list[str],
    *,
    places: list[str],
    unknown: list[str],
    asked_s: float,
    job: Job,
    under_way: jobs.UnderWayOut | None = None,
) -> jobs.CheckpointOut:
    """`asked_s`: when the places were asked. What has become durable since they could not know of. Of an
    earlier run than the job's newest, or once it is over, nothing becomes durable any more."""
    was_durable = checkpoint.durable_s is not None and checkpoint.durable_s < asked_s
    never_will_be = checkpoint.phase in UNDER_WAY and (job.phase.over or checkpoint.epoch < job.epoch)
    return jobs.CheckpointOut(
        id=checkpoint.id,
        run_id=checkpoint.run_id,
        epoch=checkpoint.epoch,
        phase=checkpoint.phase.value,
        final=checkpoint.final,
        step=checkpoint.step,
        progress=checkpoint.progress,
        stall_s=checkpoint.stall_s,
        size_bytes=checkpoint.size_bytes,
        shipped_bytes=checkpoint.shipped_bytes,
        requested_at=shown_time(checkpoint.requested_s),
        captured_at=shown_time_or_none(checkpoint.captured_s),
        durable_at=shown_time_or_none(checkpoint.durable_s),
        trouble=checkpoint.trouble.value if checkpoint.trouble else None,
        trouble_told=TROUBLE_IN_WORDS[checkpoint.trouble] if checkpoint.trouble else None,
        tier=checkpoint.tier.value,
        tier_why=checkpoint.tier_why,
        node_id=node_id,
        ready_on=ready_on,
        places=places,
        places_unknown=unknown if checkpoint.durable_s is not None else [],
        spoiled=checkpoint.id in job.spoiled,
        gone=never_will_be or (was_durable and not places and not unknown),
        under_way=None if never_will_be else under_way,
    )


def under_way_out(note: SaveNote, *, for_s: float, heard_s: float) -> jobs.UnderWayOut:
    return jobs.UnderWayOut(
        stage=cast(jobs.SaveStageName, note.stage),
        for_s=for_s,
        done_bytes=note.done_bytes,
        total_bytes=note.total_bytes,
        heard_at=shown_time(heard_s),
    )


def nobody_knows(heard_s: float | None) -> jobs.UnderWayOut:
    heard_at = shown_time_or_none(heard_s)
    return jobs.UnderWayOut(stage="unknown", for_s=None, done_bytes=0, total_bytes=None, heard_at=heard_at)


def reason_out(reason: Reason) -> jobs.ReasonOut:
    return jobs.ReasonOut(subject=reason.subject, code=reason.why.value, sentence=told(reason))


def verdict_out(verdict: Verdict) -> jobs.VerdictOut:
    refusal = verdict.refusal
    return jobs.VerdictOut(
        node=verdict.node,
        fits=verdict.fits,
        code=refusal.why.value if refusal else None,
        sentence=refusal.sentence() if refusal else None,
        score=verdict.score,
    )


def node_out(
    node: Node,
    *,
    now_s: float,
    runs: Iterable[Run],
    connected: bool,
    fingerprint: str | None,
    last_heard_s: float | None,
) -> campus.NodeOut:
    """`runs` are those that hold something of the node."""
    runs = sorted(runs, key=lambda run: run.id)
    holders = {index: run.id for run in runs for index in run.grant.gpu_indices}
    capacity, terms = node.facts.capacity, node.facts.terms
    return campus.NodeOut(
        id=node.id,
        lab=node.facts.lab,
        building=node.facts.building,
        phase=node.phase.value,
        connected=connected,
        isolated_because=node.isolated_because,
        fingerprint=fingerprint,
        runtime=node.facts.runtime,
        sandboxed=node.facts.sandboxed,
        dumps_guests=node.facts.system.able,
        dumps_why_not="" if node.facts.system.able else node.facts.system.why_not,
        dumps_kind=node.facts.system.kind,
        gpus=[
            campus.GpuOut(
                **asdict(gpu),
                run_id=holders.get(gpu.index),
                withheld=_not_lent(node.withheld, gpu.index, now_s),
            )
            for gpu in capacity.gpus
        ],
        cpus=capacity.cpus,
        memory_bytes=capacity.memory_bytes,
        uplink_bps=capacity.uplink_bps,
        terms=campus.TermsOut(**{name: _listed(value) for name, value in asdict(terms).items()}),
        known_end_at=shown_time_or_none(node.known_end_s),
        not_lent_because=node.not_lent_because,
        vault_trouble=node.facts.vault_trouble,
        disk="failing" if node.facts.disk_fails else node.facts.disk.value,
        joined_at=shown_time(node.joined_s),
        phase_since=shown_time(node.phase_since_s),
        deadline_at=shown_time_or_none(node.deadline_s),
        last_heard_at=shown_time_or_none(last_heard_s),
        departures=node.departures,
        lent_gpu_s=node.lent_gpu_s + sum(run.held_gpu_s(now_s) for run in runs),
        runs=[run.id for run in runs],
    )


def free_out(view: NodeView) -> campus.FreeOut:
    facts, terms = view.node.facts, view.node.facts.terms
    return campus.FreeOut(
        node=view.node.id,
        lab=facts.lab,
        gpus=[
            campus.FreeGpuOut(
                index=gpu.index, model=gpu.model, memory_bytes=gpu.memory_bytes, speed=gpu.speed
            )
            for gpu in view.free_gpus
        ],
        cpus=max(0.0, view.free_cpus),
        memory_bytes=max(0, view.free_memory_bytes),
        until=shown_time_or_none(view.node.known_end_s),
        notice_s=terms.notice_s,
        allow_labs=list(terms.allow_labs),
        deny_labs=list(terms.deny_labs),
        allow_people=list(terms.allow_people),
        deny_people=list(terms.deny_people),
    )


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _not_lent(gpus: Iterable[WithheldGpu], index: int, now_s: float) -> str | None:
    withheld = withheld_of(gpus, index)
    return None if withheld is None else withheld.because(now_s)


def timing_out(timing: Timing) -> campus.TimingOut:
    return campus.TimingOut(**asdict(timing))


def _resources_out(request: Request) -> jobs.ResourcesOut:
    return jobs.ResourcesOut(
        gpus=request.gpus,
        vram_bytes=request.vram_bytes,
        models=list(request.models),
        exclude=list(request.exclude_models),
        compute_capability=request.compute_capability,
        cuda=request.cuda,
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        network="allowed" if request.network else "none",
    )


def _durable_out(durable: DurablePoint | None) -> jobs.DurableOut | None:
    if durable is None:
        return None
    return jobs.DurableOut(
        checkpoint_id=durable.checkpoint_id,
        step=durable.step,
        progress=durable.progress,
        at=shown_time(durable.at_s),
    )
