"""The decision log without what differs from one shell to the next: times, sizes, rates, how often was saved.

Turns commits into lines, so that the same small scenario told by the simulator and by live processes can be
laid side by side. One line per decision: what happened | what was ordered | why. Leases, timers and periodic
saves are left out, and a decision with nothing else in it has no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.effects import (
    AskToSave,
    CancelShipping,
    CancelTimer,
    DropState,
    FetchState,
    ForgetOrders,
    LimitGuest,
    SendOrder,
    SendReport,
    SetTimer,
    ShipCheckpoint,
    StartGuest,
)
from gpunion.domain.protocol.events import (
    AgentStarted,
    CheckpointNotShipped,
    CheckpointShipped,
    CoordinatorStarted,
    GuestCouldNotSave,
    GuestNotDumped,
    GuestSaved,
    LeaseRenewed,
    NodeReported,
    OrderReceived,
    StateFetched,
    TimerFired,
)
from gpunion.domain.protocol.orders import StageState, StartRun, TakeCheckpoint, UnstageState
from gpunion.domain.protocol.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    StateStaged,
)
from gpunion.domain.protocol.timers import (
    Deadline,
    FenceOver,
    LastSeconds,
    LeaseGraceOver,
    OwnSave,
    SilentTooLong,
    text_of,
)
from gpunion.domain.reasons.reason import Reason, Why

# Timers that stand for something a person would tell; the rest only say that time has passed.
TELLING_TIMERS = Deadline | LastSeconds | OwnSave | LeaseGraceOver | SilentTooLong | FenceOver
# Why a job waits and which steps were saved depends on the moment.
QUIET_REASONS = {Why.WAITING, Why.SAVED, Why.SAVE_FAILED, Why.STEP_BEHIND, Why.FLUSH_FITS}
QUIET_REASONS |= {Why.STAGED, Why.STATE_READY, Why.STATE_WAS_THERE}
QUIET_REASONS |= {Why.STATE_CAME_DIRECTLY, Why.NO_DIRECT_WAY}
NAMED_FACTS = ("node_id", "job_id", "run_id", "epoch", "final", "leaving", "killed", "killed_meanwhile")
TOLD_FACTS = ("reason", "cause", "exit_code", "why", "trouble")

_PeriodicSave = CheckpointCaptured | CheckpointDurable | CheckpointFailed


class Transcript:
    """Feed it commits in order. It remembers which saves were last ones: only those are told."""

    def __init__(self) -> None:
        self._final: set[str] = set()

    def line(self, commit: Commit | AgentCommit) -> str | None:
        self._learn(commit)
        if commit.decision.empty:
            return None  # something happened, and nobody had to do anything about it
        event = self._event(commit.event)
        effects = [shown for effect in commit.decision.effects if (shown := self._effect(effect))]
        reasons = [_reason(reason) for reason in commit.decision.reasons if reason.why not in QUIET_REASONS]
        if event is None and not effects and not reasons:
            return None
        parts = [event or "(time passed)", ", ".join(effects), ", ".join(reasons)]
        return " | ".join(parts).rstrip(" |")

    def _learn(self, commit: Commit | AgentCommit) -> None:
        for effect in commit.decision.effects:
            order = effect.order if isinstance(effect, SendOrder) else effect
            if isinstance(order, TakeCheckpoint | AskToSave) and order.final:
                self._final.add(order.checkpoint_id)
            elif isinstance(effect, SendReport) and isinstance(effect.report, CheckpointDurable):
                if effect.report.final:
                    self._final.add(effect.report.checkpoint_id)

    def _event(self, event: object) -> str | None:
        match event:
            case LeaseRenewed() | CoordinatorStarted() | StateFetched():
                return None
            case TimerFired(timer=timer):
                return f"TimerFired {text_of(timer)}" if isinstance(timer, TELLING_TIMERS) else None
            case NodeReported(node_id=node_id, report=report):
                told = self._report(report)
                return None if told is None else f"{node_id}: {told}"
            case OrderReceived(order=order):
                return self._order(order)
            case (
                GuestSaved()
                | GuestNotDumped()
                | GuestCouldNotSave()
                | CheckpointShipped()
                | CheckpointNotShipped()
            ):
                return _named(event) if event.checkpoint_id in self._final else None
            case AgentStarted(found=found, killed_meanwhile=killed):
                shown = " ".join(f"{guest.run_id}:{'alive' if guest.alive else 'gone'}" for guest in found)
                return " ".join(part for part in ("AgentStarted", shown, "killed" if killed else "") if part)
            case _:
                return _named(event)

    def _effect(self, effect: object) -> str | None:
        match effect:
            case SetTimer() | CancelTimer() | LimitGuest() | CancelShipping() | FetchState() | DropState():
                return None
            case SendOrder(node_id=node_id, order=order):
                told = self._order(order)
                return None if told is None else f"{node_id} <- {told}"
            case SendReport(report=report):
                return self._report(report)
            case StartGuest(order=order):
                return f"StartGuest {order.run_id}"
            case AskToSave() | ShipCheckpoint():
                return _named(effect) if effect.checkpoint_id in self._final else None
            case ForgetOrders(node_id=node_id):
                return f"ForgetOrders {node_id}"
            case _:
                return _named(effect)

    def _order(self, order: object) -> str | None:
        if isinstance(order, StageState | UnstageState):
            return None  # whether there is time for it depends on the moment
        if isinstance(order, TakeCheckpoint) and not order.final:
            return None
        if isinstance(order, StartRun):
            return f"StartRun {order.run_id} {'resume' if order.restore else 'afresh'}"
        return _named(order)

    def _report(self, report: object) -> str | None:
        if isinstance(report, StateStaged):
            return None
        if isinstance(report, _PeriodicSave) and report.checkpoint_id not in self._final:
            return None
        return _named(report)


def transcript(commits: Iterable[Commit | AgentCommit]) -> Iterator[str]:
    """The told lines of one coordinator's or one agent's commits."""
    told = Transcript()
    for commit in commits:
        line = told.line(commit)
        if line is not None:
            yield line


def full_line(commit: Commit | AgentCommit) -> str:
    """One line that leaves nothing out but sizes: for stories of what went wrong."""
    effects = ", ".join(_named(effect) for effect in commit.decision.effects)
    reasons = ", ".join(_reason(reason) for reason in commit.decision.reasons)
    return f"{_named(commit.event)} | {effects} | {reasons}".rstrip(" |")


def _named(thing: object) -> str:
    words = [type(thing).__name__]
    for inner in ("report", "order"):
        within = getattr(thing, inner, None)
        if within is not None:
            words.append(f"({_named(within)})")
    run_id = getattr(thing, "run_id", None)
    for name in NAMED_FACTS:
        value = getattr(thing, name, None)
        if run_id is not None and name in ("job_id", "epoch"):
            continue  # a run's name has both
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words.append(str(value))
    gpus = getattr(thing, "gpus", ())
    if gpus:
        words.append(f"gpus={','.join(map(str, gpus))}")
    for name in TOLD_FACTS:
        value = getattr(thing, name, None)
        if value == "" or (value is HoldCause.OWNER and not gpus):
            continue  # a whole machine is mostly taken by its owner's word
        if value is not None and not isinstance(value, CheckpointTrouble):
            words.append(f"{name}={value}")
        elif value is not None:
            words.append(str(value))
    key = getattr(thing, "key", None)
    if key is not None:
        words.append(str(key))
    return " ".join(words)


def _reason(reason: Reason) -> str:
    return f"{reason.why} {reason.subject}"


def for_reading(_logger: object, _name: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A line of a shell's log as people want it, in the way that structlog asks: without what is empty, and
    without the transcript, which is for laying two logs beside each other."""
    return {name: value for name, value in fields.items() if name != "told" and value != []}
