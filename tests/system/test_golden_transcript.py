"""One brain: the same small scenario through the simulator and through live processes decides the same.

The scenario is `scenarios/golden.toml`. Its decisions, told without times and sizes, are kept in `golden/`:
one file for the coordinator and one for each agent. What is chance is told the same either way: who joins
first, whether a last save is in the vault before its program is gone, and whether that left or was ended.
`python -m tests.system.test_golden_transcript` writes the files anew, when a change of behaviour is meant.
"""

from __future__ import annotations

import json
import re
import time
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.transcript import Transcript
from gpunion.sim.observer import Watch
from gpunion.sim.run import run_scenario
from gpunion.sim.world import World
from tests.system.scene import Scene

SCENARIO = Path(__file__).parents[2] / "scenarios" / "golden.toml"
GOLDEN = Path(__file__).with_name("golden")
NOTICE_S = 40.0
LOG_LIMIT_S = 20.0
# A busy machine must not be taken for a silent one, nor a slow save for an absent coordinator.
PATIENT = {"heartbeat_s": 5.0, "lease_s": 20.0, "own_save_patience_s": 10.0}

ENDED = re.compile("GuestExited|RunEnded")
ARRIVED = re.compile("CheckpointShipped|CheckpointDurable")
HOW_IT_ENDED = re.compile(r" (cause=saved|exit_code=(85|137))\b")
SIGNS = ("SignsSeen", "SignsShown")

Told = dict[str, list[str]]


class _Listener(Watch):
    def __init__(self) -> None:
        self.told: Told = {}
        self._transcripts: dict[str, Transcript] = {}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        self._add("coordinator", commit)

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        self._add(str(node_id), commit)

    def _add(self, who: str, commit: Commit | AgentCommit) -> None:
        line = self._transcripts.setdefault(who, Transcript()).line(commit)
        if line is not None:
            self.told.setdefault(who, []).append(line)


def _simulated() -> Told:
    listener = _Listener()

    def listen(world: World) -> None:
        world.watch(listener)

    outcome = run_scenario(SCENARIO, prepare=listen)
    assert outcome.ok, outcome.violations
    listener.told["coordinator"] = _joins_sorted(listener.told["coordinator"])
    return listener.told


def _joins_sorted(lines: list[str]) -> list[str]:
    joins = [line for line in lines if line.startswith("NodeJoined")]
    return sorted(joins) + lines[len(joins) :]


def _golden() -> Told:
    return {path.stem: path.read_text().splitlines() for path in sorted(GOLDEN.glob("*.txt"))}


def test_the_simulator_tells_the_golden_transcript() -> None:
    assert _simulated() == _golden()


def test_either_way_of_leaving_is_told_the_same() -> None:
    left_first = [
        "GuestExited JOB-e1 exit_code=85 | RunEnded JOB-e1 reason=saved exit_code=85",
        "CheckpointShipped JOB-e1 | CheckpointDurable JOB-e1 final, RemoveGuest JOB-e1",
    ]
    shipped_first = [
        "CheckpointShipped JOB-e1 | CheckpointDurable JOB-e1 final",
        "GuestExited JOB-e1 cause=saved exit_code=137 | "
        "RunEnded JOB-e1 reason=saved exit_code=137, RemoveGuest JOB-e1",
    ]
    assert _leaving_as_one(left_first) == _leaving_as_one(shipped_first)
    crashed = [left_first[0].replace("85", "1"), left_first[1]]
    assert _leaving_as_one(crashed) != _leaving_as_one(left_first)


@pytest.mark.xdist_group("golden")
@pytest.mark.timeout(300)
def test_live_processes_tell_the_golden_transcript(tmp_path: Path) -> None:
    scene = Scene.open(tmp_path / "campus", labs=("a", "b", "c"), timing=PATIENT)
    try:
        job_id = scene.submit(steps=250, step_s=0.05, every_s=1.0)  # not over before all acts were
        _saved_on(scene, job_id, "a")
        owner_client.reclaim(scene.campus.state_dir("a"), NOTICE_S)
        _saved_on(scene, job_id, "b")
        scene.campus.lose_power("b")
        assert scene.until_over(job_id)["phase"] == "succeeded"
        golden = _without_chance(_golden())
        until_s = time.monotonic() + LOG_LIMIT_S
        while (live := _all_live(scene, job_id)) != golden and time.monotonic() < until_s:
            time.sleep(0.1)  # a line is logged after its decision counts, so the last one may be on its way
        differences = [line for who in golden for line in unified_diff(golden[who], live[who], "golden", who)]
        assert differences == []
    finally:
        scene.close()


def _saved_on(scene: Scene, job_id: str, node: str) -> None:
    """A periodic save of the run there is durable: the next act may begin."""

    def saved(job: dict[str, object]) -> bool:
        if job["phase"] != "running" or job["node_id"] != node:
            return False
        rows = scene.campus.client().checkpoints(job_id)
        return any(row["run_id"] == f"{job_id}-e{job['epoch']}" and row["phase"] == "durable" for row in rows)

    scene.until(job_id, f"saved on {node}", saved)


def _all_live(scene: Scene, job_id: str) -> Told:
    live = {who: _live(scene, who, job_id) for who in _golden()}
    live["coordinator"] = _joins_sorted(live["coordinator"])
    return _without_chance(live)


def _without_chance(told: Told) -> Told:
    return {who: _leaving_as_one(lines) for who, lines in told.items()}


def _leaving_as_one(lines: list[str]) -> list[str]:
    """The end of a saved run and the arrival of its save, neighbours in either order, as one line."""
    for at, pair in enumerate(pairwise(lines)):
        events = [line.partition(" | ")[0] for line in pair]
        if any(map(ENDED.search, events)) and any(map(ARRIVED.search, events)):
            told = [HOW_IT_ENDED.sub("", line).replace(" | ", ", ") for line in pair]
            words = sorted(word for line in told for word in line.split(", "))
            return [*lines[:at], " + ".join(words), *lines[at + 2 :]]
    return lines


def _live(scene: Scene, who: str, job_id: str) -> list[str]:
    told = []
    for line in scene.campus.log_of(who).read_text().splitlines():
        if line.startswith("{"):
            found = json.loads(line).get("told")
            if found and not found.startswith(SIGNS):  # whoever happens to sit at this machine
                told.append(found.replace(job_id, "JOB"))
    return told


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, lines in _simulated().items():
        (GOLDEN / f"{name}.txt").write_text("\n".join(lines) + "\n")
