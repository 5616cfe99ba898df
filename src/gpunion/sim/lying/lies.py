"""Lies that have the shape of the truth: frames made up from their types, and true ones with one thing wrong.

A lie is built as plain JSON and goes through the same codec as what a real agent sends, so it meets every
check that a real one meets. Whatever field a report is given tomorrow is lied about from then on.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId, checkpoint_id
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.frames import PROTOCOL_VERSION, AgentFrame, Heartbeat, Hello, ReportFrame
from gpunion.domain.protocol.reports import Report
from gpunion.engine.coordinator.state import CampusState
from gpunion.wire import codec

Plain = dict[str, Any]

INTS = (0, 1, -1, 2, 10**6, 10**15, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30)
FLOATS = (0.0, -1.0, 0.5, 1.0, 1e-300, 5e-324, 1e15, 1.7e308, -1.7e308, float("inf"), float("nan"))
WORDS = (
    "", "x", "no-such-thing", "../../etc/passwd", "/tmp/lie", "a/b", ".", "0", "None", "job-e", "-e1", "\x00",
    "\x1b]52;c;bGll\x07\x1b[2J", "\u202egnorw\u009b31m", "e\u0301" * 40, "x" * 600, "w" * 20_000, "\ud800",
)  # fmt: skip
REPORTS: tuple[type, ...] = get_args(Report)
WHOSE = frozenset({"run_id", "job_id", "epoch", "checkpoint_id", "output", "restored"})


def _weight(kind: type) -> int:
    """What a run's own life consists of comes most often; seldom an owner's words after which it has none."""
    names = {field.name for field in dataclasses.fields(kind)}
    return 10 if "job_id" in names else 1 if "gpus" in names or not names else 2


WEIGHTS = tuple(_weight(kind) for kind in REPORTS)
SHARES = frozenset({"progress", "done"})  # from 0 to 1
SEEN_FROM_FAR = 400.0  # how far off a clock may be that only looks wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a made-up frame is about: a run, as it is or put together from several."""

    run_id: RunId
    job_id: JobId
    epoch: int
    checkpoint_id: CheckpointId
    gpus: int = 1


class Forger:
    """Draws lies. It knows what every node can read of the campus: all runs, and what they are called."""

    def __init__(self, draw: random.Random, node_id: NodeId) -> None:
        self._draw = draw
        self._node_id = node_id

    # --- frames ----------------------------------------------------------------------------------

    def report(self, state: CampusState, *, seq: int, ack: int, now_s: float) -> Plain:
        kind = self._draw.choices(REPORTS, WEIGHTS)[0]
        subject = self._subject(state)
        body = {"type": kind.__name__, **self._made(kind, subject, now_s)}
        frame = {"type": "ReportFrame", "seq": seq, "ack": ack, "sent_s": now_s, "report": body}
        return self.with_a_lie(frame, state) if self._draw.random() < 0.6 else frame

    def heartbeat(self, state: CampusState, *, ack: int, now_s: float) -> Plain:
        frame = {"type": "Heartbeat", **self._made(Heartbeat, self._subject(state), now_s), "ack": ack}
        frame["sent_s"] = now_s
        return self.with_a_lie(frame, state) if self._draw.random() < 0.6 else frame

    def with_a_lie(self, frame: AgentFrame | Plain, state: CampusState) -> Plain:
        """The same frame with one thing in it that is not so."""
        plain: Plain = frame if isinstance(frame, dict) else codec.to_plain(frame)
        plain = json.loads(json.dumps(plain))
        places = [place for place in _places(plain) if place[1] != "type" or self._draw.random() < 0.05]
        whose = [place for place in places if place[1] in WHOSE]
        within, key = self._draw.choice(whose if whose and self._draw.random() < 0.5 else places)
        fate = self._draw.random()
        if fate < 0.04 and isinstance(within, dict):
            del within[key]
        elif fate < 0.08 and isinstance(within, dict):
            within["told_by_nobody"] = within[key]
        else:
            within[key] = self._other_than(str(key), within[key], state)
        return plain

    def envelope(self, plain: Plain) -> bytes:
        """As a hostile agent writes it: with numbers and texts that our own encoder would not write."""
        envelope = {
            "v": PROTOCOL_VERSION,
            "seq": plain.get("seq", 0),
            "ack": plain.get("ack", 0),
            "epoch": 0,
            "body": plain,
        }
        return json.dumps(envelope).encode()

    # --- values ----------------------------------------------------------------------------------

    def _subject(self, state: CampusState) -> Subject:
        runs = list(state.runs.values())
        own = [run for run in runs if run.node_id == self._node_id and run.living]
        others = [run for run in runs if run.node_id != self._node_id and run.living]
        over = [run for run in runs if not run.living]
        about = self._pick(self._draw.choice((own, own, own, others, others, over, [])) or own or others)
        if about is None:
            return self._nobody()
        if self._draw.random() < 0.2 and (other := self._pick(runs)) is not None:
            saved = self._of(state, other)
            return Subject(
                run_id=about.id, job_id=other.job_id, epoch=other.epoch, checkpoint_id=saved, gpus=2
            )
        saved = self._of(state, about)
        return Subject(run_id=about.id, job_id=about.job_id, epoch=about.epoch, checkpoint_id=saved)

    def _nobody(self) -> Subject:
        name = self._draw.choice(WORDS)
        return Subject(
            run_id=RunId(f"{name}-e1"),
            job_id=JobId(name),
            epoch=self._draw.choice(INTS),
            checkpoint_id=CheckpointId(f"{name}-e1-c1"),
        )

    def _of(self, state: CampusState, run: Run) -> CheckpointId:
        asked = state.unsettled.get(run.id)
        if asked and self._draw.random() < 0.7:
            return self._draw.choice(sorted(asked))
        return checkpoint_id(run.id, self._draw.randint(1, 4))

    def _pick(self, runs: list[Run]) -> Run | None:
        return self._draw.choice(runs) if runs else None

    def _made(self, kind: type, subject: Subject, now_s: float) -> Plain:
        """Every field of it, as its type wants it."""
        return {name: self._value(name, hint, subject, now_s) for name, hint in _hints(kind)}

    def _value(self, name: str, hint: Any, subject: Subject, now_s: float) -> Any:
        if name in ("run_id", "job_id", "epoch", "checkpoint_id"):
            return getattr(subject, name)
        if name in ("output", "restored") and hint is not NoneType:
            return f"{subject.run_id}-output" if name == "output" else subject.checkpoint_id
        if name in ("deadline_s", "at_s") and self._draw.random() < 0.7:
            return now_s + self._draw.choice((-5.0, 1.0, 30.0, SEEN_FROM_FAR))
        hint = getattr(hint, "__supertype__", hint)
        if get_origin(hint) in (UnionType, Union):
            return self._value(name, self._draw.choice(get_args(hint)), subject, now_s)
        if hint in (None, NoneType):
            return None
        if get_origin(hint) is tuple:
            return self._tuple(name, get_args(hint), subject, now_s)
        if dataclasses.is_dataclass(hint):
            return self._made(hint, subject, now_s)  # type: ignore[arg-type]
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._draw.choice(list(hint)).value
        return self._plainly(name, hint, subject)

    def _tuple(self, name: str, parts: tuple[Any, ...], subject: Subject, now_s: float) -> list[Any]:
        if parts[-1] is not Ellipsis:
            return [self._value(name, part, subject, now_s) for part in parts]
        if name in ("guests", "parking"):
            return [subject.run_id] * self._draw.randint(0, 2)
        return [self._value("", parts[0], subject, now_s) for _ in range(self._draw.randint(0, 2))]

    def _plainly(self, name: str, hint: Any, subject: Subject) -> Any:
        if hint is bool:
            return self._draw.random() < 0.5
        if hint is int:
            return self._draw.choice((0, 1, 1, 2, 10, 1000, 10**9))
        if hint is float:
            return self._draw.choice((0.0, 0.5, 1.0) if name in SHARES else (0.0, 0.5, 1.0, 2.0, 60.0))
        return "" if self._draw.random() < 0.5 else self._draw.choice(("why", "a word", subject.job_id))

    def _other_than(self, name: str, value: Any, state: CampusState) -> Any:
        if self._draw.random() < 0.05:
            return self._draw.choice((None, [], {}, "x", 1, True, [[]] * 50))
        match value:
            case bool():
                return not value
            case int():
                near = (value + 1, value - 1, value * 2, -value)
                return self._draw.choice(INTS if self._draw.random() < 0.6 else near)
            case float():
                near_s = (value + SEEN_FROM_FAR, value - SEEN_FROM_FAR, -value, value * 1000)
                return self._draw.choice(FLOATS if self._draw.random() < 0.6 else near_s)
            case str():
                return self._other_name(name, value, state)
            case list():
                return self._draw.choice((value * 2, value * 1000, [], [*value, None], list(reversed(value))))
            case dict():
                return self._draw.choice((None, {}, {**value, "more": value}))
            case _:
                return self._draw.choice((*INTS, *FLOATS, *WORDS))

    def _other_name(self, name: str, value: str, state: CampusState) -> str:
        known: list[str] = []
        if name == "type":
            known = [kind.__name__ for kind in (*REPORTS, Hello, Heartbeat, ReportFrame)] + [
                "StartRun",
                "Job",
            ]
        elif name in ("run_id", "id", "") or name.isdigit():
            known = list(state.runs)
        elif name == "job_id":
            known = list(state.jobs)
        elif name in ("checkpoint_id", "output", "restored"):
            known = list(state.checkpoints)
        elif name == "node_id":
            known = list(state.nodes)
        elif name in ("reason", "trouble", "why", "phase", "tier", "cause"):
            known = [
                "finished",
                "failed",
                "saved",
                "node_lost",
                "stopped",
                "start_failed",
                "old_epoch",
                "owner",
            ]
        if known and self._draw.random() < 0.7:
            return self._draw.choice(known)
        return self._draw.choice((*WORDS, value + "x", value[:-1], value.upper()))


@cache
def _hints(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(kind))


def _places(plain: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in it that holds something: the container and the key there."""
    rows: Any = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in rows:
        yield plain, key
        if isinstance(value, dict | list):
            yield from _places(value)
