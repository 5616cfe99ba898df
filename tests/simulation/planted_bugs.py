"""Broken parts for a simulated campus. Each breaks one promise that the checkers are there to judge."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import CheckpointId, JobId, RunId, run_id
from gpunion.domain.jobs.guest import Holding
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.effects import LimitGuest, SendOrder, SetTimer, ShipCheckpoint, TellWindow
from gpunion.domain.protocol.events import AgentEvent, CoordinatorEvent, NodeReported, OrderReceived
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.timers import Deadline, WholeMachine, WindowEnds
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.disks import CampusDisk
from gpunion.sim.vault import ModelVault, Sealed


class AgentWithoutEpochs(PureAgent):
    """Remembers no epochs, so every start looks new."""

    def committed(self, commit: AgentCommit) -> None:
        super().committed(commit)
        self.engine.state.epochs.clear()


class VaultWithoutEpochs(ModelVault):
    def begin(self, job_id, epoch):
        self.epochs[job_id] = 0
        return True


class AgentWithoutKillTimer(PureAgent):
    """Neither its own timer nor its keepers know of the owner's deadline."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        effects = [
            replace(effect, kill_at_s=None) if isinstance(effect, LimitGuest) else effect
            for effect in commit.decision.effects
            if not (isinstance(effect, SetTimer) and effect.timer == Deadline(of=WholeMachine()))
        ]
        return replace(commit, decision=replace(commit.decision, effects=tuple(effects)))


class AgentWithoutWindowLimits(PureAgent):
    """Neither its keepers nor its own timer know when a window ends, and it tells its program nothing."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        effects = [
            replace(effect, kill_at_s=None) if isinstance(effect, LimitGuest) else effect
            for effect in commit.decision.effects
            if not isinstance(effect, TellWindow)
            and not (isinstance(effect, SetTimer) and isinstance(effect.timer, WindowEnds))
        ]
        return replace(commit, decision=replace(commit.decision, effects=tuple(effects)))


class AgentDeafToItsOwner(PureAgent):
    """Starts guests whatever the owner said."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        holding = self.engine.state.holding
        if _is_start(event):
            self.engine.state.holding = Holding()
        commit = super().decide(now_s, event, order_seq)
        self.engine.state.holding = holding
        return commit


class CoordinatorOfOneGpu(PureCoordinator):
    """Sends everybody to the first GPUs of a node."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        commit = super().decide(now_s, event, mark, plan=plan)
        effects = tuple(_to_the_first_gpus(effect) for effect in commit.decision.effects)
        orders = tuple(replace(o, order=_moved(o.order)) for o in commit.orders)
        return replace(commit, decision=replace(commit.decision, effects=effects), orders=orders)


class AgentBlindToItsGuests(PureAgent):
    """Does not see that a GPU is in use."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        guests = self.engine.state.guests
        if _is_start(event):
            self.engine.state.guests = {}
        commit = super().decide(now_s, event, order_seq)
        self.engine.state.guests = guests
        return commit


class VaultThatKnowsBetter(ModelVault):
    """Whatever checkpoint is asked for, it hands out the newest."""

    def get(self, job_id: JobId, checkpoint_id: CheckpointId) -> Sealed | None:
        asked_for = super().get(job_id, checkpoint_id)
        return None if asked_for is None else self.latest(job_id)


class VaultThatKeepsTheNewestOnly(ModelVault):
    """Whatever it is told to keep for a gang."""

    def _forget(self, kept, keep):
        super()._forget(kept, None)


class VaultThatOnlySaysSo(ModelVault):
    """Says that it sealed, and did not."""

    def seal(self, sealed: Sealed):
        return None


class DiskThatLosesReports(CampusDisk):
    """Every fifth report is acknowledged and forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self._reports_seen = 0

    def commit(self, commit: Commit) -> None:
        if isinstance(commit.event, NodeReported):
            self._reports_seen += 1
            if self._reports_seen % 5 == 0:
                return
        super().commit(commit)


class AgentThatForgetsToReport(PureAgent):
    """Counts its reports of an end as sent without sending them: every third one."""

    _ends = 0

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        if any(type(numbered.report).__name__ == "RunEnded" for numbered in commit.reports):
            self._ends += 1
            if self._ends % 3 == 0:
                return replace(commit, reports=())
        return commit


class AgentInAHurry(PureAgent):
    """Sends its last saves as fast as the wire will go, whatever rate it was given."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        effects = tuple(
            replace(effect, rate_bps=effect.rate_bps * 100) if isinstance(effect, ShipCheckpoint) else effect
            for effect in commit.decision.effects
        )
        return replace(commit, decision=replace(commit.decision, effects=effects))


class CoordinatorThatGivesTooSoon(PureCoordinator):
    """Gives away what somebody who makes room still has, as soon as that is asked for."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        state = self.engine.state
        for moving_id in state.moving:
            migration = state.migrations[moving_id]
            run = state.runs[migration.source_run]
            if migration.room_for is not None and run.living:
                state.runs[run.id] = replace(run, gpus_back=True)
        return super().decide(now_s, event, mark, plan=plan)


class CoordinatorThatCannotWaitForTheDriver(PureCoordinator):
    """Gives a GPU away while what its guest has on it is on its way into memory."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        state = self.engine.state
        for moving_id in state.moving:
            migration = state.migrations[moving_id]
            run = state.runs[migration.source_run]
            if migration.phase is MigrationPhase.PARKING and run.living:
                state.runs[run.id] = replace(run, gpus_back=True)
        return super().decide(now_s, event, mark, plan=plan)


class CoordinatorThatAsksAgain(PureCoordinator):
    """Remembers of nobody that they made room lately."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        migrations = self.engine.state.migrations
        kept = dict(migrations)
        for id, one in kept.items():
            if one.resumed_s is not None:
                migrations[id] = replace(one, resumed_s=-1e6)
        commit = super().decide(now_s, event, mark, plan=plan)
        migrations.update(kept)
        return commit


class TaciturnCoordinator(PureCoordinator):
    """Gives no reasons."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        commit = super().decide(now_s, event, mark, plan=plan)
        return replace(commit, decision=replace(commit.decision, reasons=()))


class CoordinatorThatBelievesAnybody(PureCoordinator):
    """Takes what any node says of any run, as if the run's own had said it."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        if isinstance(event, NodeReported):
            event = _as_if_of(event, self.engine.state.runs.get(getattr(event.report, "run_id", RunId(""))))
        return super().decide(now_s, event, mark, plan=plan)


class CoordinatorBlindToEpochs(PureCoordinator):
    """Takes what is said of any epoch of a job for a word of the newest."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None, *, plan: bool = True) -> Commit:
        job = self.engine.state.jobs.get(getattr(getattr(event, "report", None), "job_id", JobId("")))
        if isinstance(event, NodeReported) and job is not None:
            event = _as_if_of(event, self.engine.state.runs.get(run_id(job.id, job.epoch)))
        return super().decide(now_s, event, mark, plan=plan)


def _as_if_of(event: NodeReported, run):
    said = {"run_id", "job_id", "epoch"} & set(getattr(event.report, "__dataclass_fields__", ()))
    if run is None or "run_id" not in said:
        return event
    report = replace(event.report, run_id=run.id, job_id=run.job_id, epoch=run.epoch)
    return replace(event, node_id=run.node_id, report=report)


def _is_start(event: AgentEvent) -> bool:
    return isinstance(event, OrderReceived) and isinstance(event.order, StartRun)


def _moved(order):
    if not isinstance(order, StartRun):
        return order
    first = tuple(range(len(order.grant.gpu_indices)))
    return replace(order, grant=replace(order.grant, gpu_indices=first))


def _to_the_first_gpus(effect):
    return replace(effect, order=_moved(effect.order)) if isinstance(effect, SendOrder) else effect
