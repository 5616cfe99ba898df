"""What a program can wait for: every timer there is, each with whom it is about.

A timer is a value: setting it again moves it. Its text is how it is stored, and of two that are due at one
moment the one whose text comes first fires first, so a text never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, assert_never, cast

from gpunion.domain.ids import MigrationId, NodeId, RunId


class _WithText:
    """What has a text of its own: it is stored and told by it."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_of(cast(Timer, self))


# --- of the coordinator -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveDue(_WithText):
    """The run is to save again."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentTooLong(_WithText):
    """The run's node was silent for so long that its guest has certainly ended."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceOver(_WithText):
    """The run's node came back without it or left: by now its guest has certainly ended."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOverdue(_WithText):
    """The run was ordered and should have started."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSaveOverdue(_WithText):
    """The migration's last save should have arrived."""

    migration_id: MigrationId


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonDue(_WithText):
    """What the owners did since the last time is to be learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationDue(_WithText):
    """The node's end was foretold: it is time to look whether all its guests can save within the notice."""

    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnToLeave(_WithText):
    """The next guest of the node may have to begin to leave."""

    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOver(_WithText):
    """Somebody waits, and the next turn of a guest that runs in windows is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceOverdue(_WithText):
    """What the run saved when its window was over should have arrived."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanDue(_WithText):
    """Somebody waits, or is away from home: time alone may have changed what is best."""


# --- of an agent --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeMachine:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGpu:
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGuest:
    run_id: RunId


# What a notice is about: what its owner takes back, or the guest that may not stay.
Noticed = WholeMachine | OneGpu | OneGuest


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline(_WithText):
    """The notice is over."""

    of: Noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSeconds(_WithText):
    """The notice is nearly over: guests are asked to end by themselves."""

    of: Noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSave(_WithText):
    """The coordinator had its time to plan last saves; now the agent looks to them itself."""

    of: Noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOver(_WithText):
    """The coordinator was not heard for as long as guests may stay without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGraceOver(_WithText):
    """And those who were asked to save have had their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEnds(_WithText):
    """The run's window is nearly over: it is asked to save, unless it has gone by itself."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOverdue(_WithText):
    """The run was asked to save and should have answered."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipAgain(_WithText):
    """A last save of the run did not arrive; it is tried again."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedTooLong(_WithText):
    """The parked run has waited long enough, for its owner or for its dump."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDue(_WithText):
    """The run was asked to end and is there yet."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedLongEnough(_WithText):
    """The run has stood in memory for a job of a higher class for as long as that may take."""

    run_id: RunId


NoticeTimer = Deadline | LastSeconds | OwnSave
CoordinatorTimer = (
    SaveDue
    | SilentTooLong
    | FenceOver
    | StartOverdue
    | LastSaveOverdue
    | LessonDue
    | EvacuationDue
    | TurnToLeave
    | TurnOver
    | PieceOverdue
    | ParkedLongEnough
    | ReplanDue
)
AgentTimer = (
    NoticeTimer | LeaseOver | LeaseGraceOver | WindowEnds | SaveOverdue | ShipAgain | ParkedTooLong | KillDue
)
Timer = CoordinatorTimer | AgentTimer
AnyTimer = TypeVar("AnyTimer", CoordinatorTimer, AgentTimer)


def of_notice(of: Noticed) -> tuple[NoticeTimer, ...]:
    return Deadline(of=of), LastSeconds(of=of), OwnSave(of=of)


# --- texts --------------------------------------------------------------------------------------


class UnknownTimer(ValueError):
    """A text that is no timer of this program. The message names it."""


def text_of(timer: Timer) -> str:
    match timer:  # the commonest first
        case SaveDue():
            return f"checkpoint:{timer.run_id}"
        case SaveOverdue():
            return f"save:{timer.run_id}"
        case LeaseOver():
            return "lease"
        case ReplanDue():
            return "replan"
        case StartOverdue():
            return f"start:{timer.run_id}"
        case LastSaveOverdue():
            return f"flush:{timer.migration_id}"
        case SilentTooLong():
            return f"give_up:{timer.run_id}"
        case FenceOver():
            return f"fence:{timer.run_id}"
        case LessonDue():
            return "lesson"
        case EvacuationDue():
            return f"evacuate:{timer.node_id}"
        case TurnToLeave():
            return f"leave:{timer.node_id}"
        case TurnOver():
            return "turn"
        case PieceOverdue():
            return f"piece:{timer.run_id}"
        case WindowEnds():
            return f"window:{timer.run_id}"
        case ParkedLongEnough():
            return f"parked:{timer.run_id}"
        case Deadline():
            return _of_the_notice("deadline", timer.of)
        case LastSeconds():
            return _of_the_notice("term", timer.of)
        case OwnSave():
            return _of_the_notice("own_save", timer.of)
        case LeaseGraceOver():
            return "lease_end"
        case ShipAgain():
            return f"ship:{timer.run_id}"
        case ParkedTooLong():
            return f"park:{timer.run_id}"
        case KillDue():
            return f"kill:{timer.run_id}"
        case _:
            assert_never(timer)


def coordinator_timer(text: str) -> CoordinatorTimer:
    return _read(text, _OF_THE_COORDINATOR, "a coordinator")


def agent_timer(text: str) -> AgentTimer:
    return _read(text, _OF_AN_AGENT, "an agent")


def _of_the_notice(name: str, of: Noticed) -> str:
    match of:
        case WholeMachine():
            return name
        case OneGpu():
            return f"{name}:gpu:{of.index}"
        case OneGuest():
            return f"{name}:guest:{of.run_id}"
        case _:
            assert_never(of)


def _read(text: str, kinds: Mapping[str, Callable[[str], AnyTimer]], whose: str) -> AnyTimer:
    name, _, subject = text.partition(":")
    unknown = UnknownTimer(f"no timer of {whose} is called {text!r}")
    try:
        timer = kinds[name](subject)
    except (KeyError, ValueError):
        raise unknown from None
    if text_of(timer) != text or text.endswith(":"):  # a subject too many, or none
        raise unknown
    return timer


def _noticed(subject: str) -> Noticed:
    kind, _, which = subject.partition(":")
    match kind:
        case "":
            return WholeMachine()
        case "gpu":
            return OneGpu(index=int(which))
        case "guest":
            return OneGuest(run_id=RunId(which))
        case _:
            raise ValueError(kind)


_OF_THE_COORDINATOR: dict[str, Callable[[str], CoordinatorTimer]] = {
    "checkpoint": lambda subject: SaveDue(run_id=RunId(subject)),
    "give_up": lambda subject: SilentTooLong(run_id=RunId(subject)),
    "fence": lambda subject: FenceOver(run_id=RunId(subject)),
    "start": lambda subject: StartOverdue(run_id=RunId(subject)),
    "flush": lambda subject: LastSaveOverdue(migration_id=MigrationId(subject)),
    "lesson": lambda _: LessonDue(),
    "evacuate": lambda subject: EvacuationDue(node_id=NodeId(subject)),
    "leave": lambda subject: TurnToLeave(node_id=NodeId(subject)),
    "turn": lambda _: TurnOver(),
    "piece": lambda subject: PieceOverdue(run_id=RunId(subject)),
    "parked": lambda subject: ParkedLongEnough(run_id=RunId(subject)),
    "replan": lambda _: ReplanDue(),
}
_OF_AN_AGENT: dict[str, Callable[[str], AgentTimer]] = {
    "deadline": lambda subject: Deadline(of=_noticed(subject)),
    "term": lambda subject: LastSeconds(of=_noticed(subject)),
    "own_save": lambda subject: OwnSave(of=_noticed(subject)),
    "lease": lambda _: LeaseOver(),
    "lease_end": lambda _: LeaseGraceOver(),
    "window": lambda subject: WindowEnds(run_id=RunId(subject)),
    "save": lambda subject: SaveOverdue(run_id=RunId(subject)),
    "ship": lambda subject: ShipAgain(run_id=RunId(subject)),
    "park": lambda subject: ParkedTooLong(run_id=RunId(subject)),
    "kill": lambda subject: KillDue(run_id=RunId(subject)),
}
