"""A hostile coordinator at a real agent: orders with paths for names, grants that cannot be, numbers far off.

Judged on the machine: other people's files, the guests that live there, the agent, its owner's commands, and
whether a true order is followed afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocketDisconnect

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.run import RunPhase
from gpunion.wire import codec
from tests.attack.hostile import envelope
from tests.attack.score import Score
from tests.builders.values import a_save_order, a_start, a_stop
from tests.integration.agent.campus import TestCampus, eventually
from tests.integration.agent.machine import FOREVER, TRAIN, Machine

WHO = "coordinator"
NODE = NodeId("attacked")
SETTLE_S = 0.15


def attack_agent(root: Path, score: Score, *, every: int = 1) -> None:
    """`every`: only each n-th order."""
    root.mkdir(parents=True)
    asyncio.run(_attack(root, score, every))


async def _attack(root: Path, score: Score, every: int) -> None:
    theirs = root / "not-theirs"
    (theirs / "deep").mkdir(parents=True)
    (theirs / "deep" / "file").write_text("theirs")
    (theirs / "key").write_text("theirs")
    campus = TestCampus()
    await campus.start()
    machine = Machine(campus, root, NODE)
    machine.vault.mkdir()  # the agent makes it at its own time: that is no harm
    try:
        await machine.join(allow_unsandboxed=True)
        machine.boot()
        await machine.listening()
        await _connected(campus)
        before, seq = _seen(machine, theirs), 0
        for what, order in islice(_orders(theirs), 0, None, every):
            seq += 1
            taken = await _say(campus, {**order, "seq": order.get("seq", seq)})
            score.attempt(WHO, f"order {what}", refused=not taken)
            for harm in _differences(before, _seen(machine, theirs)):
                score.got_through(WHO, f"order {what}", harm)
                before = _seen(machine, theirs)
        await _still_serves(campus, machine, seq, score)
    finally:
        machine.clear_up()
        await campus.stop()


def _seen(machine: Machine, theirs: Path) -> dict[str, Any]:
    assert machine.agent is not None
    return {
        "files of others": sorted(
            (str(path.relative_to(theirs)), path.read_text() if path.is_file() else "")
            for path in theirs.rglob("*")
        ),
        "the agent's end": machine.agent.poll(),
        "guests": machine.living_guests(),
        "what its owner's settings are": (machine.state_dir / "agent.toml").read_text(),
        "beside the machine's own folder": sorted(path.name for path in machine.state_dir.parent.iterdir()),
    }


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name}: was {str(before[name])[:150]}, is {str(now[name])[:150]}"
        for name in before
        if before[name] != now[name]
    ]


async def _connected(campus: TestCampus) -> None:
    def welcomed() -> bool:
        link = campus.station.links.get(NODE)  # none before its first hello is read
        return NODE in campus._sockets and link is not None and link.connected

    await eventually(welcomed, "the agent is welcomed")


async def _say(campus: TestCampus, frame: dict[str, Any]) -> bool:
    """False where the agent closed the connection over it."""
    await _connected(campus)
    before = campus._sockets[NODE]
    try:
        await before.send_bytes(envelope(frame, epoch=frame.get("term", 0)))
    except (RuntimeError, WebSocketDisconnect):
        return False
    await asyncio.sleep(SETTLE_S)
    return campus._sockets.get(NODE) is before


def _orders(theirs: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    start = codec.to_plain(a_start("job-e1"))
    names = (
        str(theirs), str(theirs / "deep"), f"../../{theirs.name}", "..", ".", "", "a/b", "x\x00", "-rf", "~",
        "n" * 5000, "../not-theirs", "run\n", "\u202e", "*", "$(touch x)", "/", "guests", "....//....//etc",
    )  # fmt: skip
    for name in names:
        for field in ("run_id", "job_id", "bundle", "restore", "lockfile", "keep"):
            yield f"5 {field} is a path", _order({**start, field: name})
        yield "5 stop of a path", _order({**codec.to_plain(a_stop()), "run_id": name})
        saved = codec.to_plain(a_save_order())
        yield "5 save of a path", _order({**saved, "run_id": name})
        yield "5 save under a path", _order({**saved, "checkpoint_id": name})
        yield "places are paths", _order({**start, "places": [name]})
    grant = start["grant"]
    strange: tuple[dict[str, Any], ...] = (
        {"memory_bytes": 2**60}, {"memory_bytes": -1}, {"memory_bytes": 0}, {"cpus": 1e9}, {"cpus": -1.0},
        {"gpu_indices": [7]}, {"gpu_indices": [-1]}, {"gpu_indices": [0, 0]},
        {"gpu_indices": list(range(3000))}, {"gpu_indices": [2**40]},
    )  # fmt: skip
    for number, changes in enumerate(strange):
        about = {"run_id": f"greedy{number}-e1", "job_id": f"greedy{number}", "epoch": 1}
        yield f"19 grant {next(iter(changes))}", _order({**start, **about, "grant": {**grant, **changes}})
    for epoch in (0, -1, 10**15, 2**70):
        yield "epoch", _order({**start, "epoch": epoch, "grant": {**grant, "gpu_indices": [9]}})
    for seq in (0, -1, 10**15, 2**63):
        yield "numbers of the channel", {**_order(start), "seq": seq}
    lease = {"type": "LeaseGrant", "term": 1, "ack": 0, "sent_s": time.monotonic()}
    for lease_s in (-1.0, 0.0, 1e300, float("inf"), float("nan")):
        yield "a lease", {**lease, "heartbeat_sent_s": time.monotonic(), "lease_s": lease_s}
    yield "acknowledged far ahead", {**lease, "heartbeat_sent_s": 0.0, "lease_s": 1.0, "ack": 10**12}
    yield "acknowledged below nothing", {**lease, "heartbeat_sent_s": 0.0, "lease_s": 1.0, "ack": -5}
    kinds: tuple[Any, ...] = ("RunStarted", "Hello", "Job", "NoSuchThing", "", None, 7, [])
    for kind in kinds:
        yield "a frame of another kind", {"type": kind, "term": 1, "ack": 0, "sent_s": 0.0}


def _order(order: dict[str, Any]) -> dict[str, Any]:
    return {"type": "OrderFrame", "term": 1, "ack": 0, "sent_s": time.monotonic(), "order": order}


async def _still_serves(campus: TestCampus, machine: Machine, seq: int, score: Score) -> None:
    """Its owner is obeyed, and a job that is really sent there runs."""
    try:
        await machine.owner("pause")
        await machine.owner("resume")
        campus.station.links[NODE].orders.last_seq = seq + 10
        await _connected(campus)
        await campus._sockets.pop(NODE).close()
        await _connected(campus)
        job_id = campus.submit("honest", TRAIN, STEPS=FOREVER)
        runs = campus.station.engine.state.runs
        await eventually(
            lambda: any(run.job_id == job_id and run.phase is RunPhase.RUNNING for run in runs.values()),
            "a true order is followed",
        )
    except (AssertionError, RuntimeError) as error:
        score.got_through(WHO, "order of any kind", f"afterwards: {error}")
