"""One lab's machine: power, clock, guests, agent, and the owner in front of it.

The owner's word as the owner knows it is kept here, apart from what the agent made of it: checkers judge
the one by the other.
"""

from __future__ import annotations

from enum import StrEnum

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.events import (
    AgentStarted,
    DepartureForeseen,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.sim.disks import AgentDisk
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.agent import AgentShell
from gpunion.sim.machine.runtime import GuestRuntime
from gpunion.sim.observer import Watch
from gpunion.sim.program.clocks import Clock
from gpunion.sim.scenario.values import NodePlan

# After which an owner may have been promised something else than before.
OWNERS_WORDS = (OwnerReclaimed, OwnerPaused, OwnerResumed, OwnerKilled, AgentStarted)


class Word(StrEnum):
    SHARING = "sharing"
    PAUSED = "paused"
    RECLAIMED = "reclaimed"  # from the moment of the notice: nobody new may come
    LEFT = "left"


class Machine(Watch):
    def __init__(
        self,
        kernel: Kernel,
        plan: NodePlan,
        *,
        clock: Clock,
        runtime: GuestRuntime,
        agent: AgentShell,
        watch: Watch,
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.runtime = runtime
        self.agent = agent
        self.on = True
        self.word = Word.SHARING
        self.deadline_s: float | None = None  # true time; nothing of a guest after it until the owner resumes
        self.gpus_taken: dict[int, float] = {}  # by when each has to be its owner's, in true time
        self._leaving = False
        self._incarnations = 1
        self._kernel = kernel
        self._watch = watch

    @property
    def id(self) -> NodeId:
        return self.plan.id

    def join(self) -> None:
        """The first start of its agent, unless trouble came before it."""
        if self.on and not self.agent.up:
            self.agent.start()

    def join_anew(self) -> None:
        """Installed again: nothing of before is left on it, and its owner lends it."""
        self.agent.stop()
        self.runtime.wipe()
        self.agent.place.shelf.wipe()
        self._incarnations += 1
        self.agent.disk = AgentDisk(f"{self.id}-{self._incarnations}")
        self.agent.killed_meanwhile = False
        self.gpus_taken.clear()
        self._leaving = False
        self._say(Word.SHARING, None)
        self.join()

    def rejoin(self) -> bool:
        if self.word is Word.LEFT and self.on:
            self.join_anew()
        return self.on

    # --- power -----------------------------------------------------------------------------------

    def power_off(self) -> None:
        self.on = False
        self.agent.rebooted = True
        self._watch.machine_changed(self.id, "lost power")
        self.agent.crash()
        self.runtime.power_off()

    def power_on(self, clock_jump_s: float = 0.0, *, wiped: bool = False) -> None:
        if clock_jump_s:
            self.clock.jump(self._kernel.now_s, clock_jump_s)
        self.on = True
        self._watch.machine_changed(self.id, "booted anew, its disk wiped" if wiped else "booted")
        if wiped:
            self.join_anew()
        else:
            self.join()

    # --- the owner -------------------------------------------------------------------------------

    def reclaim(
        self,
        notice_s: float,
        *,
        leaving: bool = False,
        when_safe: bool = False,
        gpus: tuple[int, ...] = (),
    ) -> bool:
        """False: no agent answered. The owner waits, or takes the way that needs none."""
        word = OwnerReclaimed(notice_s=notice_s, leaving=leaving, when_safe=when_safe, gpus=gpus)
        return self.on and self.agent.post(word)

    def foretell(self, lent_s: float | None) -> bool:
        """What terms say of the time to come binds nobody; an agent that is down has nothing to say of it."""
        if self.on:
            now_s = self.clock.local(self._kernel.now_s)
            self.agent.post(DepartureForeseen(at_s=None if lent_s is None else now_s + lent_s))
        return True

    def pause(self) -> bool:
        return self.on and self.agent.post(OwnerPaused())

    def resume(self, gpus: tuple[int, ...] = ()) -> bool:
        return self.on and self.agent.post(OwnerResumed(gpus=gpus))

    def kill(self) -> bool:
        """Always works. Without an agent, or when it dies over it, the command ends the guests itself."""
        if not self.on:
            return False
        if not self.agent.post(OwnerKilled()):
            self.agent.killed_meanwhile = True
            for box in sorted(self.runtime.living(), key=lambda box: box.run_id):
                self.runtime.kill(box.run_id, EndReason.KILLED_BY_OWNER)
            self._has_it()
        return True

    # --- what the owner was promised -------------------------------------------------------------

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        if node_id != self.id:
            return
        match commit.event:
            case OwnerReclaimed(gpus=gpus, notice_s=notice_s) if gpus:
                deadline_s = self.clock.true(commit.at_s + max(0.0, notice_s))
                for gpu in gpus:
                    self.gpus_taken[gpu] = min(deadline_s, self.gpus_taken.get(gpu, deadline_s))
            case OwnerResumed(gpus=gpus) if gpus:
                for gpu in gpus:
                    self.gpus_taken.pop(gpu, None)
            case OwnerReclaimed(notice_s=notice_s, leaving=leaving):
                self._asked_back(self.clock.true(commit.at_s + max(0.0, notice_s)), leaving)
            case OwnerKilled():
                self._has_it()
            case AgentStarted(killed_meanwhile=True):
                self._has_it()
            case OwnerPaused() if self.word is Word.SHARING:
                self._say(Word.PAUSED, None)
            case OwnerResumed() if self.word is not Word.LEFT:
                self._leaving = False
                self.gpus_taken.clear()
                self._say(Word.SHARING, None)
            case _:
                pass

    def _asked_back(self, deadline_s: float, leaving: bool) -> None:
        if self.word is Word.LEFT:
            return
        self._leaving = self._leaving or leaving
        if self.deadline_s is not None:
            deadline_s = min(deadline_s, self.deadline_s)  # a second word never lengthens a notice
        self._say(Word.LEFT if self._leaving else Word.RECLAIMED, deadline_s)

    def _has_it(self) -> None:
        if self.word is not Word.LEFT:
            self._say(Word.RECLAIMED, self._kernel.now_s)

    def _say(self, word: Word, deadline_s: float | None) -> None:
        self.word, self.deadline_s = word, deadline_s
        self._watch.owner_spoke(self.id, word.value, deadline_s)
