"""Frames of a node with one guest, of a former node and of nodes that are none, at a real coordinator."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from websockets.exceptions import WebSocketException

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.engine.coordinator.state import CampusState
from gpunion.sim.lying.lies import Forger
from tests.attack.ground import FAR_STEP, Ground
from tests.attack.hostile import Hostile, envelope, of, plain
from tests.attack.score import Score
from tests.builders.values import a_job, a_run

LOOK_EVERY = 25
NAMED_LOOK_EVERY = 5
HALF_OPEN = 900
ESCAPES = "\x1b]52;c;bGll\x07\x1b[2J\u202e\x9b31m"
SPEEDS = (0.0, -1.0, 1e-300, 5e-324, 101.0, 1e15, 1.7e308, float("inf"), float("nan"))


def attack_wire(ground: Ground, score: Score, *, frames: int, seed: int = 0, every: int = 1) -> None:
    """`every`: only each n-th of what is named."""
    before = ground.seen()

    def look(who: str, what: str) -> None:
        nonlocal before
        for harm in ground.harm_since(before):
            score.got_through(who, what, harm)
            before = ground.seen()

    for who, hostile in (("node with one guest", ground.evil), ("former node", ground.former)):
        hostile.connect()
        for number, (what, frame) in enumerate(islice(_named(ground, hostile), 0, None, every)):
            if hostile.socket is None:
                hostile.connect()
            if frame["type"] == "ReportFrame" and "seq" not in frame:
                hostile.seq += 1
                frame["seq"] = hostile.seq
            taken = hostile.says(envelope(frame)) and hostile.is_heard()
            score.attempt(who, f"frame {what}", refused=not taken)
            if number % NAMED_LOOK_EVERY == 0:
                look(who, f"frame {what} or one of the {NAMED_LOOK_EVERY} before it")
                ground.accept_all()
        look(who, "frame of the last named")
        _made_up(ground, score, who, hostile, frames // 2, seed, look)
    for what in _connections(ground, score):
        look("stranger", f"connection {what}")


def _named(ground: Ground, hostile: Hostile) -> Iterator[tuple[str, dict[str, Any]]]:
    """What got through once, with what stands beside it."""
    own = of(hostile.starts[0])
    for name, job_id in ground.victims.items():
        epoch = 2 if name == "moved" else 1
        theirs = {"run_id": f"{job_id}-e{epoch}", "job_id": job_id, "epoch": epoch}
        mixed = (
            {**theirs, "run_id": own["run_id"]},
            theirs,
            {**own, "job_id": job_id},
            {**own, "epoch": 10**9},
        )
        for number, about in enumerate(
            (*mixed, {**theirs, "run_id": "no-such-run"}, {**theirs, "epoch": 10**15})
        ):
            for reason in ("finished", "saved", "node_lost", "failed"):
                yield (
                    f"1 ended {reason} of {name} {number}",
                    _ended(about, reason, f"{about['run_id']}-output"),
                )
            yield f"6 failed save of {name} {number}", _failed(about)
            yield f"13 durable of {name} {number}", _durable(about, FAR_STEP)
            yield f"13 captured of {name} {number}", _captured(about, FAR_STEP)
            yield f"started of {name} {number}", _report("RunStarted", **about, **_started(FAR_STEP))
            yield f"parked of {name} {number}", _report("RunParked", **about, moved_bytes=1, took_s=0.0)
            yield f"asked to go of {name} {number}", _report("GuestAskedToGo", **about, deadline_s=1.0)
        staged = {
            "job_id": job_id,
            "epoch": epoch,
            "checkpoint_id": f"{job_id}-e{epoch}-c1",
            "fetched_bytes": 1,
        }
        yield f"staged of {name}", _report("StateStaged", **staged)
        yield f"output of {name}", _report("OutputArrived", **theirs, output=f"{job_id}-e{epoch}-output")
        progress = [{"run_id": theirs["run_id"], "step": FAR_STEP * 10, "progress": 1.0}]
        yield f"20 progress of {name}", _beat(progress=progress)
        yield f"20 ended of {name}", _beat(finishing=[{"run_id": theirs["run_id"], "trouble": "vault_full"}])
        yield f"parking of {name}", _report("NoticeGiven", deadline_s=1.0, parking=[theirs["run_id"]])
    yield from _odd_facts(ground, hostile)
    for words in ("x" * 900_000, ESCAPES, "\x00", "\ud800"):
        yield "16 17 words", _report("TermsChanged", terms={}, said=words)
        yield "16 17 words of an end", _ended(own, "failed", None, detail=words)
        yield "16 17 words of a departure", _report("DepartureForetold", at_s=None, because=words)
    for frame in (
        _beat(ack=-1),
        _beat(ack=10**15),
        _beat(sent_s=-1e9),
        _beat(sent_s=1e300),
        _beat(sent_s=0.0),
    ):
        yield "numbers of the channel", frame
    for seq in (0, -1, 2, 10**15, 2**63):
        yield "numbers of the channel", {**_report("NodeResumed"), "seq": seq}


def _odd_facts(ground: Ground, hostile: Hostile) -> Iterator[tuple[str, dict[str, Any]]]:
    def greets(**facts: Any) -> dict[str, Any]:
        hello = plain(hostile.hello("odd"))
        hello["facts"]["capacity"].update(facts)
        return hello

    gpu = plain(hostile.hello("odd"))["facts"]["capacity"]["gpus"][0]
    for speed in SPEEDS:
        yield f"2 14 speed {speed}", greets(gpus=[{**gpu, "speed": speed}])
    yield "3,000 GPUs", greets(gpus=[{**gpu, "index": index} for index in range(3000)])
    yield "two GPUs of one index", greets(gpus=[gpu, gpu])
    yield "a model of 500 kB", greets(gpus=[{**gpu, "model": "m" * 500_000}])
    for name, value in (("cpus", -1.0), ("memory_bytes", -5), ("uplink_bps", 0.0), ("memory_bytes", 2**70)):
        yield f"facts {name} {value}", greets(**{name: value})
    for other in ("a", "b", "former", "evil", "no-such-node", "../a", ""):
        if other != hostile.node_id:
            yield f"another's hello {other}", {**plain(hostile.hello("odd")), "node_id": other}
    runs = [f"{job_id}-e{epoch}" for job_id in ground.victims.values() for epoch in (1, 2)]
    yield "others' guests in a hello", {**plain(hostile.hello("odd")), "guests": runs}


def _made_up(
    ground: Ground, score: Score, who: str, hostile: Hostile, frames: int, seed: int, look: Any
) -> None:
    """By the forger that the simulator's liars have."""
    state, forger = _known(ground, hostile), Forger(random.Random(f"{seed} {who}"), NodeId(hostile.node_id))
    hostile.connect()
    for number in range(frames):
        hostile.seq += 1
        frame = forger.report(state, seq=hostile.seq, ack=0, now_s=time.monotonic())
        if number % 4 == 0:
            hostile.seq -= 1
            frame = forger.heartbeat(state, ack=0, now_s=time.monotonic())
        taken = hostile.says(forger.envelope(frame))
        score.attempt(who, "forged frames", refused=not taken)
        if number % LOOK_EVERY == LOOK_EVERY - 1:
            if not hostile.is_heard():
                hostile.connect()
            look(who, "forged frames")
            ground.accept_all()


def _known(ground: Ground, hostile: Hostile) -> CampusState:
    state = CampusState()
    for name, job_id in ground.victims.items():
        state.jobs[JobId(job_id)] = a_job(job_id)
        epoch, node = (2, "c") if name == "moved" else (1, "a")
        run = a_run(f"{job_id}-e{epoch}", node_id=NodeId(node))
        state.runs[RunId(run.id)] = run
    for start in hostile.starts:
        state.jobs[start.job_id] = a_job(start.job_id)
        state.runs[start.run_id] = a_run(start.run_id, node_id=NodeId(hostile.node_id))
    return state


# --- reports -------------------------------------------------------------------------------------


def _report(kind: str, **said: Any) -> dict[str, Any]:
    frame = {"type": "ReportFrame", "ack": 0, "sent_s": time.monotonic()}
    return {**frame, "report": {"type": kind, **said}}


def _beat(**said: Any) -> dict[str, Any]:
    return {"type": "Heartbeat", "sent_s": time.monotonic(), "ack": 0, **said}


def _ended(about: dict[str, Any], reason: str, output: str | None, detail: str = "") -> dict[str, Any]:
    end = {"reason": reason, "last_step": FAR_STEP, "exit_code": 0, "output": output, "detail": detail}
    return _report("RunEnded", **about, **end)


def _save(about: dict[str, Any]) -> dict[str, Any]:
    return {**about, "checkpoint_id": f"{about['job_id']}-e{about['epoch']}-c999"}


def _failed(about: dict[str, Any]) -> dict[str, Any]:
    return _report("CheckpointFailed", **_save(about), trouble="not_answered")


def _durable(about: dict[str, Any], step: int) -> dict[str, Any]:
    sizes = {"size_bytes": 1, "shipped_bytes": 1, "final": False}
    return _report("CheckpointDurable", **_save(about), step=step, progress=0.5, **sizes)


def _captured(about: dict[str, Any], step: int) -> dict[str, Any]:
    return _report("CheckpointCaptured", **_save(about), step=step, progress=0.5, stall_s=0.0)


def _started(step: int) -> dict[str, Any]:
    return {"restored": None, "resumed_step": step, "restore_s": 0.0}


# --- connections ---------------------------------------------------------------------------------


def _connections(ground: Ground, score: Score) -> Iterator[str]:
    evil = ground.evil
    for who, token in (
        ("stranger", "x"),
        ("used join token", ground.used_token),
        ("node that left", ground.left.credential),
    ):
        refused = not _greets(evil, token)
        score.attempt(who, "connection with another's hello", refused=refused)
    yield "with another's hello"
    for data in (
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"0" * 2_000_000,
        json.dumps([[]] * 10_000).encode(),
        b"[" * 100_000,
    ):
        score.attempt("node with one guest", "connection garbage", refused=not evil.says(data))
        evil.connect()
    yield "garbage"
    evil.connect()
    other = evil.dial()
    evil.says(envelope(_beat()))
    other.send(envelope(plain(evil.hello("second"))))
    score.attempt("node with one guest", "connection twice", refused=not evil.is_heard())
    other.close()
    yield "twice"
    evil.connect()
    for _ in range(2_000):
        if not evil.says(envelope(_beat(sent_s=time.monotonic()))):
            evil.connect()
    slow = ground.answers_within(10.0)
    score.attempt("node with one guest", "connection flood of heartbeats", refused=not slow)
    if slow:
        score.got_through("node with one guest", "connection flood of heartbeats", slow)
    yield "flood of heartbeats"
    yield from _half_open(ground, score)


def _greets(evil: Hostile, token: str) -> bool:
    try:
        with evil.dial(token) as other:
            other.send(envelope(plain(evil.hello("not-mine"))))
            other.recv(timeout=5.0)
    except (WebSocketException, OSError, TimeoutError):
        return False
    return True


def _half_open(ground: Ground, score: Score) -> Iterator[str]:
    """Heads that never end, from one address, and bodies that hardly come."""
    host, port = ground.scene.campus.url.rpartition("/")[2].split(":")
    opened = []
    for number in range(HALF_OPEN):
        try:
            one = socket.create_connection((host, int(port)), timeout=5.0)
            body = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{"
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" if number % 10 else body)
            opened.append(one)
        except OSError:
            pass
    slow = ground.answers_within(10.0)
    score.tried["stranger", "connection half open"] += HALF_OPEN
    score.refused["stranger", "connection half open"] += 0 if slow else HALF_OPEN
    if slow:
        score.got_through("stranger", "connection half open", slow)
    yield "half open"
    for one in opened:
        one.close()
