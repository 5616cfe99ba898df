"""What a commit means, without the names of our code: the same before and after a rename.

One line a commit: when, what happened, what was ordered and reported, which records changed and to which
phase, and why. Left out is what decides nothing: fields at their default, keys and tokens, sentences. So a
renamed class, a new field with a default and a better sentence leave the line as it is, and a decision that
is made otherwise, or at another time, does not. A rename is told to `NAMES` in the commit that makes it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.decision import AgentDecision
from gpunion.domain.protocol.events import LeaseRenewed
from gpunion.domain.reasons.reason import Reason

# From the name now to the name in the record: "Class", "Class.field" (of the class as it is called now) and
# "Enum.MEMBER", whose recorded name is the member's value of then.
NAMES: Mapping[str, str] = {
    "SetTimer.timer": "key",
    "CancelTimer.timer": "key",
    "TimerFired.timer": "key",
}

# Sentences for people. A field of one of these names is left out where it holds text and no enum.
SENTENCES = frozenset(
    (
        "because",
        "detail",
        "elsewhere",
        "kept",
        "left_out",
        "not_lent_because",
        "passed_over",
        "said",
        "tier_why",
        "trouble",
        "unreadable",
        "vault_trouble",
        "why",
        "why_not",
    )
)
# What a node is was given to it by its scenario: nobody decided it.
GIVEN = frozenset(("facts",))

_Field = tuple[str, str, Callable[[object], bool]]


def line(commit: Commit | AgentCommit, names: Mapping[str, str] = NAMES) -> str:
    """What this commit means, on one line."""
    if isinstance(commit.event, LeaseRenewed):
        return commit.at_s.hex()  # most of all commits, and all alike
    decision, tell = commit.decision, _Telling(names)
    told = [
        commit.at_s.hex(),
        tell.value(commit.event),
        sorted(tell.record(record) for record in decision.changes),
        [tell.value(effect) for effect in decision.effects],
        [tell.value(reason) for reason in decision.reasons],
    ]
    if isinstance(decision, AgentDecision):
        told.append(list(map(str, decision.forgotten)))
    return repr(told)


class _Telling:
    """Values as lists, texts and numbers, under the names that are recorded."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def value(self, value: object) -> object:
        match value:
            case Reason():
                return ["why", self.value(value.why), value.subject]
            case enum.Enum():
                return self._names.get(f"{type(value).__name__}.{value.name}", value.value)
            case float():
                return value.hex()
            case tuple() | list():
                return [self.value(one) for one in value]
            case set() | frozenset():
                return sorted(repr(self.value(one)) for one in value)
            case dict():
                return sorted((str(self.value(key)), self.value(one)) for key, one in value.items())
            case None | bool() | int() | str():
                return value
            case _ if type(value).__str__ is not object.__str__:
                return str(value)  # what has a text of its own is known by it
            case _:
                return [self._name(value), self._fields(value)]

    def record(self, record: object) -> list[str]:
        """Which record it is and what phase it is in. What else it holds shows in what is decided next."""
        ids = (getattr(record, name, None) for name in ("id", "run_id", "job_id"))
        phases = (getattr(record, name, None) for name in ("phase", "owner_state"))
        phase = next((phase for phase in phases if phase is not None), None)
        return [
            self._name(record),
            str(next((one for one in ids if one is not None), "")),
            str(self.value(phase)),
        ]

    def _name(self, value: object) -> str:
        name = type(value).__name__
        return self._names.get(name, name)

    def _fields(self, value: object) -> list[tuple[str, object]]:
        told, kind = [], cast(Any, type(value))
        for full_name, name, is_default in _fields(kind):
            held = getattr(value, name)
            sentence = name in SENTENCES and type(held) is str
            if not (sentence or name in GIVEN or is_default(held)):
                told.append((self._names.get(full_name, name), self.value(held)))
        return sorted(told, key=lambda field: field[0])


@functools.cache
def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    """Its fields that are shown at all. A key or a token is no decision, and may not be in a file either."""
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} in a commit: only records, enums, numbers and texts can be told")
    return tuple(
        (f"{kind.__name__}.{field.name}", field.name, _is_default(field))
        for field in dataclasses.fields(kind)
        if field.repr
    )


def _is_default(field: dataclasses.Field[object]) -> Callable[[object], bool]:
    if field.default is not dataclasses.MISSING:
        return lambda held: held == field.default
    if field.default_factory is not dataclasses.MISSING:
        make = field.default_factory
        return lambda held: held == make()
    return lambda _: False
