"""The coordinator's shell in the simulator: one writer over a modelled database."""

from __future__ import annotations

from collections.abc import Callable

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.protocol.commit import Commit, InboxMark
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    CoordinatorStarted,
    JobStopAsked,
    JobSubmitted,
    NodeJoined,
    NodeReported,
)
from gpunion.domain.protocol.frames import AgentFrame, ReportFrame
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import Policies
from gpunion.sim.disks import CampusDisk
from gpunion.sim.fault_points import CrashPoint, Moment
from gpunion.sim.kernel import Alarm, Kernel
from gpunion.sim.observer import Watch
from gpunion.sim.program.clocks import Clock
from gpunion.sim.scenario.values import JobPlan
from gpunion.sim.transport import Transport

ROUNDING_S = 1e-6  # see agent.py
CLIENT_RETRY_S = 5.0  # a user whose request met no coordinator asks again

MakeStation = Callable[..., PureCoordinator]

# Nobody here has to be kept from anything.
PEER_KEY = "00" * 32


class CoordinatorShell:
    def __init__(
        self,
        kernel: Kernel,
        *,
        clock: Clock,
        disk: CampusDisk,
        transport: Transport,
        policies: Policies,
        timing: Timing,
        watch: Watch,
        station_type: MakeStation = PureCoordinator,
    ) -> None:
        self.station: PureCoordinator | None = None
        self.crash_point: CrashPoint | None = None
        self.on_crash: Callable[[], None] = lambda: None
        self.answered: set[JobId] = set()
        self.disk = disk
        self._kernel = kernel
        self._clock = clock
        self._transport = transport
        self._policies = policies
        self._timing = timing
        self._watch = watch
        self._station_type = station_type
        self._wake: Alarm | None = None

    # --- life and death --------------------------------------------------------------------------

    def listening(self) -> bool:
        return self.station is not None

    def start(self) -> None:
        self.disk.term += 1
        self.station = self._station_type(
            saved=self.disk.load(),
            policies=self._policies,
            timing=self._timing,
            term=self.disk.term,
            now_s=self._now(),
        )
        self.post(CoordinatorStarted())

    def crash(self) -> None:
        if self.station is None:
            return
        self.station, self.crash_point = None, None
        if self._wake is not None:
            self._wake.cancel()
        self._transport.coordinator_died()
        self.on_crash()

    # --- deciding --------------------------------------------------------------------------------

    def post(self, event: CoordinatorEvent, mark: InboxMark | None = None) -> bool:
        """False: the coordinator was dead, or died over it."""
        if self.station is None:
            return False
        station = self.station
        commit = station.decide(self._now(), event, mark)
        crash = self.crash_point
        if crash is not None and crash.moment is Moment.BEFORE_COMMIT:
            self.crash()
            return False
        self.disk.commit(commit)
        station.committed(commit)
        self._watch.coordinator_committed(commit, station)
        if crash is not None:
            self.crash()
            return False
        for node_id in touched(commit):
            self._flush(node_id)
        self._arm()
        return self.station is station

    def submit(self, job: JobPlan) -> None:
        """A user who gets no answer asks again: the first request may have arrived, or not."""
        if self.disk.has_job(job.id) or self.post(
            JobSubmitted(job_id=job.id, spec=job.spec, peer_key=PEER_KEY)
        ):
            self.answered.update(job.ids)
        else:
            self._kernel.after(CLIENT_RETRY_S, lambda: self.submit(job))

    def stop(self, job: JobPlan) -> None:
        if not self.post(JobStopAsked(job_id=job.id)):
            self._kernel.after(CLIENT_RETRY_S, lambda: self.stop(job))

    # --- time ------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.local(self._kernel.now_s)

    def _arm(self) -> None:
        if self.station is None:
            return
        next_s = self.station.next_due_s()
        if next_s is None:
            return
        at_s = self._clock.true(next_s) + ROUNDING_S
        if self._wake is not None and self._wake.pending:
            if self._wake.at_s <= at_s:
                return
            self._wake.cancel()
        self._wake = self._kernel.at(at_s, self._woken)

    def _woken(self) -> None:
        while self.station is not None:
            event = self.station.due(self._now())
            if event is None or not self.post(event):
                break
        self._arm()

    # --- talking ---------------------------------------------------------------------------------

    def frame_arrived(self, node_id: NodeId, frame: AgentFrame) -> None:
        if self.station is None:
            return
        for event, mark in self.station.frame_arrived(self._now(), node_id, frame):
            if not self.post(event, mark):
                return
        if self.station is not None:
            self.disk.acknowledged(node_id, self.station.links[node_id].orders.waiting.keys())
        self._flush(node_id)
        if not isinstance(frame, ReportFrame):  # a report that was posted has set the alarm
            self._arm()

    def connection_lost(self, node_id: NodeId) -> None:
        if self.station is not None:
            self.station.disconnected(node_id)

    def _flush(self, node_id: NodeId) -> None:
        link = None if self.station is None else self.station.links.get(node_id)
        if self.station is not None and link is not None and (link.replies or link.orders.waiting):
            for frame in self.station.outgoing(self._now(), node_id):
                self._transport.send_down(node_id, frame)


def touched(commit: Commit) -> list[NodeId]:
    """Nodes that this commit has something to say to."""
    event = commit.event
    heard = [event.node_id] if isinstance(event, (NodeJoined, NodeReported)) else []
    return sorted({*heard, *(order.node_id for order in commit.orders)}) if commit.orders else heard
