"""Broken parts for a simulated campus. Each breaks one promise that the checkers are there to judge."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.commit import AgentCommit, Commit
from gpunion.domain.effects import LimitGuest, SendOrder, SetTimer, ShipCheckpoint
from gpunion.domain.events import AgentEvent, CoordinatorEvent, NodeReported, OrderReceived
from gpunion.domain.guest import Holding
from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.orders import StartRun
from gpunion.engine.agent_station import AgentStation
from gpunion.engine.coordinator_station import CoordinatorStation
from gpunion.sim.disks import CampusDisk
from gpunion.sim.vault import ModelVault, Sealed


class AgentWithoutEpochs(AgentStation):
    """Remembers no epochs, so every start looks new."""

    def committed(self, commit: AgentCommit) -> None:
        super().committed(commit)
        self.engine.state.epochs.clear()


class VaultWithoutEpochs(ModelVault):
    def begin(self, job_id, epoch):
        self.epochs[job_id] = 0
        return True


class AgentWithoutKillTimer(AgentStation):
    """Neither its own timer nor its keepers know of the owner's deadline."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        effects = [
            replace(effect, kill_at_s=None) if isinstance(effect, LimitGuest) else effect
            for effect in commit.decision.effects
            if not (isinstance(effect, SetTimer) and effect.key == "deadline")
        ]
        return replace(commit, decision=replace(commit.decision, effects=tuple(effects)))


class AgentDeafToItsOwner(AgentStation):
    """Starts guests whatever the owner said."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        holding = self.engine.state.holding
        if _is_start(event):
            self.engine.state.holding = Holding()
        commit = super().decide(now_s, event, order_seq)
        self.engine.state.holding = holding
        return commit


class CoordinatorOfOneGpu(CoordinatorStation):
    """Sends everybody to the first GPUs of a node."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None) -> Commit:
        commit = super().decide(now_s, event, mark)
        effects = tuple(_to_the_first_gpus(effect) for effect in commit.decision.effects)
        orders = tuple(replace(o, order=_moved(o.order)) for o in commit.orders)
        return replace(commit, decision=replace(commit.decision, effects=effects), orders=orders)


class AgentBlindToItsGuests(AgentStation):
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


class AgentThatForgetsToReport(AgentStation):
    """Counts its reports of an end as sent without sending them: every third one."""

    _ends = 0

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        if any(type(numbered.report).__name__ == "RunEnded" for numbered in commit.reports):
            self._ends += 1
            if self._ends % 3 == 0:
                return replace(commit, reports=())
        return commit


class AgentInAHurry(AgentStation):
    """Sends its last saves as fast as the wire will go, whatever rate it was given."""

    def decide(self, now_s: float, event: AgentEvent, order_seq: int | None = None) -> AgentCommit:
        commit = super().decide(now_s, event, order_seq)
        effects = tuple(
            replace(effect, rate_bps=effect.rate_bps * 100) if isinstance(effect, ShipCheckpoint) else effect
            for effect in commit.decision.effects
        )
        return replace(commit, decision=replace(commit.decision, effects=effects))


class TaciturnCoordinator(CoordinatorStation):
    """Gives no reasons."""

    def decide(self, now_s: float, event: CoordinatorEvent, mark=None) -> Commit:
        commit = super().decide(now_s, event, mark)
        return replace(commit, decision=replace(commit.decision, reasons=()))


def _is_start(event: AgentEvent) -> bool:
    return isinstance(event, OrderReceived) and isinstance(event.order, StartRun)


def _moved(order):
    if not isinstance(order, StartRun):
        return order
    first = tuple(range(len(order.grant.gpu_indices)))
    return replace(order, grant=replace(order.grant, gpu_indices=first))


def _to_the_first_gpus(effect):
    return replace(effect, order=_moved(effect.order)) if isinstance(effect, SendOrder) else effect
