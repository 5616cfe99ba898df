"""What is counted of jobs, moves and saves, as the page shows it."""

from __future__ import annotations

from dataclasses import replace

from gpunion.adapters.prometheus import PrometheusMetrics
from gpunion.coordinator.metrics.counting import RECLAIM_MAX_S, Counting
from gpunion.coordinator.metrics.series import COUNTED
from gpunion.domain.jobs.job import Priority
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import CoordinatorEvent, NodeReported
from gpunion.domain.protocol.reports import NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.engine.coordinator.state import CampusState
from gpunion.policy.policies import BASELINE, LIVE, Policies
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_run, a_spec, facts


class Counted(Headquarters):
    """Counts every decision as the loop does: before memory follows."""

    def __init__(self, policies: Policies = BASELINE) -> None:
        super().__init__(policies=policies)
        self.metrics = PrometheusMetrics(COUNTED)
        self.counting = Counting(self.metrics)

    def hears(self, event: CoordinatorEvent) -> Decision:
        before = CampusState.from_records(self.state.records())
        decision = super().hears(event)
        self.counting.committed(before, Commit(at_s=self.now_s, event=event, decision=decision))
        return decision

    def shown(self, series: str) -> float | None:
        lines = self.metrics.page(()).decode().splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"gpunion_{series} ")]
        return values[0] if values else None


def a_counted_job() -> Counted:
    campus = Counted()
    campus.joins("alpha")
    campus.submits()
    campus.now_s += 1.0
    campus.started()
    return campus


def test_a_job_is_counted_once_from_its_submission_to_its_end() -> None:
    campus = a_counted_job()
    assert campus.shown("job_submitted_total") == 1
    assert campus.shown('run_started_total{start="first"}') == 1
    assert campus.shown('job_ended_total{state="succeeded"}') == 0
    campus.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert campus.shown('run_ended_total{reason="finished"}') == 1
    assert campus.shown('job_ended_total{state="succeeded"}') == 1
    campus.joins("beta")  # whatever comes later does not end it again
    assert campus.shown('job_ended_total{state="succeeded"}') == 1


def test_a_wait_for_a_place_is_measured() -> None:
    campus = Counted()
    campus.submits()
    campus.now_s += 30.0
    campus.joins("alpha")
    assert campus.shown("placement_latency_seconds_count") == 1
    assert campus.shown("placement_latency_seconds_sum") == 30.0


def test_a_save_is_counted_with_its_phases_and_bytes() -> None:
    campus = a_counted_job()
    campus.fires("checkpoint:job-e1")
    campus.now_s += 2.0
    campus.captured("job-e1-c1", step=10, stall_s=1.5)
    campus.now_s += 4.0
    campus.durable("job-e1-c1", step=10, shipped_bytes=1000)
    assert campus.shown('checkpoint_total{outcome="durable",tier="app"}') == 1
    assert campus.shown('checkpoint_bytes_total{kind="shipped"}') == 1000
    assert campus.shown('checkpoint_seconds_sum{phase="stall"}') == 1.5
    assert campus.shown('checkpoint_seconds_sum{phase="capture"}') == 2.0
    assert campus.shown('checkpoint_seconds_sum{phase="ship"}') == 4.0


def test_a_lost_guest_costs_the_work_since_its_start() -> None:
    campus = a_counted_job()
    campus.joins("beta")
    campus.now_s += 50.0
    campus.ended("job-e1", EndReason.GUEST_LOST)
    assert campus.shown('interruption_total{cause="guest_lost"}') == 1
    campus.now_s += 5.0
    campus.started("job-e2")
    assert campus.shown('run_started_total{start="again"}') == 1
    assert campus.shown('migration_total{outcome="moved",tier="none"}') == 1
    assert campus.shown("migration_downtime_seconds_sum") == 5.0
    assert campus.shown('lost_work_seconds_total{reason="guest_lost"}') == 50.0


def test_a_kill_is_measured_until_its_guests_are_known_to_be_gone() -> None:
    campus = a_counted_job()
    campus.reported("alpha", NodeReclaimed(freed_after_s=0.0, killed=True))
    assert campus.shown('reclaim_gpu_free_seconds_count{mode="kill"}') == 0
    campus.now_s += 3.0
    campus.ended("job-e1", EndReason.KILLED_BY_OWNER)
    assert campus.shown('reclaim_gpu_free_seconds_sum{mode="kill"}') == 3.0


def test_a_kill_of_an_empty_machine_and_a_reclaim_are_measured_by_what_they_say() -> None:
    campus = Counted()
    campus.joins("alpha")
    campus.reported("alpha", NodeReclaimed(freed_after_s=0.0, killed=True))
    assert campus.shown('reclaim_gpu_free_seconds_count{mode="kill"}') == 1
    campus.joins("beta")
    campus.reported("beta", NodeReclaimed(freed_after_s=4.0))
    assert campus.shown('reclaim_gpu_free_seconds_sum{mode="notice"}') == 4.0


def test_a_gpu_that_is_out_of_order_is_no_reclaim() -> None:
    campus = Counted()
    campus.joins("alpha", facts(gpus=2))
    notice = NoticeGiven(deadline_s=campus.now_s, gpus=(0,), cause=HoldCause.SICK)
    campus.reported("alpha", notice)
    campus.reported("alpha", NodeReclaimed(freed_after_s=0.0, gpus=(0,)))
    assert campus.shown('reclaim_gpu_free_seconds_count{mode="notice"}') == 0


def test_a_machine_that_says_again_that_it_was_reclaimed_counts_once() -> None:
    campus = a_counted_job()
    for _ in range(3):
        campus.reported("alpha", NodeReclaimed(freed_after_s=3e10))
    assert campus.shown('reclaim_gpu_free_seconds_count{mode="notice"}') == 1
    assert campus.shown('reclaim_gpu_free_seconds_sum{mode="notice"}') == RECLAIM_MAX_S
    campus.reported("alpha", NodeResumed())
    campus.reported("alpha", NodeReclaimed(freed_after_s=2.0))
    assert campus.shown('reclaim_gpu_free_seconds_count{mode="notice"}') == 2


def test_a_reclaim_of_one_gpu_is_measured_and_one_that_is_reclaimed_already_is_not() -> None:
    campus = Counted()
    campus.joins("alpha", facts(gpus=2))
    for gpu in (0, 1, 1):
        campus.reported("alpha", NodeReclaimed(freed_after_s=2.0, gpus=(gpu,)))
    assert campus.shown('reclaim_gpu_free_seconds_count{mode="notice"}') == 2


def test_room_that_is_made_is_counted_by_the_class_it_is_made_for() -> None:
    campus = Counted(LIVE)
    campus.joins("alpha", facts(gpus=1))
    campus.submits("job", a_spec(gpus=1))
    campus.started("job-e1")
    campus.submits("urgent", a_spec(gpus=1, priority=Priority.HIGH))
    assert campus.shown('preemption_total{for_class="high"}') == 1
    assert campus.shown('preemption_total{for_class="normal"}') == 0
    campus.now_s += 2.0
    campus.captured("job-e1-c1", step=10)
    campus.ended("job-e1", EndReason.SAVED, step=10)
    campus.durable("job-e1-c1", step=10, final=True)
    campus.now_s += 1.0
    campus.started("urgent-e1")
    assert campus.shown('preemption_wait_seconds_sum{for_class="high"}') == 3.0


def test_a_piece_in_a_window_is_counted_with_its_time_and_what_it_overran() -> None:
    campus = Counted()
    piece = Subjob(ends_s=100.0, hard=True, end=WindowEnd.PROMISED)
    ordered = a_run("job-e1", phase=RunPhase.ORDERED, subjob=piece)
    running = replace(ordered, phase=RunPhase.RUNNING, started_s=40.0)
    ended = replace(running, phase=RunPhase.ENDED, ended_s=103.0, end_reason=EndReason.WINDOW)
    for former, run in ((ordered, running), (running, ended)):
        before = CampusState.from_records((former,))
        decision = Decision(changes=(run,), effects=(), reasons=())
        event = NodeReported(node_id=run.node_id, report=NodePaused())
        campus.counting.committed(before, Commit(at_s=0.0, event=event, decision=decision))
    assert campus.shown('window_started_total{end="promised"}') == 1
    assert campus.shown('window_ended_total{outcome="hard_end"}') == 1
    assert campus.shown("window_seconds_sum") == 63.0
    assert campus.shown("window_overrun_seconds_sum") == 3.0


def test_a_piece_that_saved_itself_for_the_end_of_its_window_ended_in_time() -> None:
    campus = Counted(LIVE)
    campus.joins("alpha", facts(gpus=1))
    campus.submits("job", replace(a_spec(gpus=1), atomizable=True))
    campus.started("job-e1")
    campus.now_s += 60.0
    campus.ended("job-e1", EndReason.SAVED, step=50, saved_for=EndReason.WINDOW)
    assert campus.shown('window_ended_total{outcome="in_time"}') == 1
    assert campus.shown('window_ended_total{outcome="interrupted"}') == 0
