"""The usual play: placed, saved, making room, home, reclaimed, moved, lost, recovered, home, finished."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo import in_windows
from gpunion.cli.demo.audience import Audience, DemoFailed, Job, Watch
from gpunion.cli.demo.campus import CampusTrouble, Lab, LocalCampus
from gpunion.cli.demo.epilogue import Outcome, compare, outcome_of, show
from gpunion.cli.demo.training_job import Training, reference_run, submit, submit_urgent

LABS = (
    Lab(name="alpha", lab="Alpha", model="A100", memory_gib=80, speed=2.0),
    Lab(name="beta", lab="Beta", model="RTX4090", memory_gib=24, speed=1.0),
    Lab(name="gamma", lab="Gamma", model="RTX3090", memory_gib=24, speed=0.9),
)
NUMBERS = {1: "One", 2: "Two", 3: "Three"}
TRAINING = Training(name="train", steps=500, seed=7)
# Short waits, so that the play is short: the product's own are in domain/timing.py.
TIMING = {"heartbeat_s": 0.5, "lease_s": 2.0, "grace_s": 1.0, "replan_s": 2.0, "resend_s": 1.0}
NOTICE_S = 10.0
ACT_LIMIT_S = 120.0
# A machine that dies without a word costs what was done since the last save; the play shows that honestly.
UNSAVED_STEPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    labs: tuple[Lab, ...]
    environment: Mapping[str, str]
    perform: Callable[[LocalCampus, Audience], Outcome | in_windows.Outcome]


def perform(options: Namespace) -> int:
    play = IN_WINDOWS if options.windows else USUAL
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    audience = Audience(sys.stderr if options.json else sys.stdout)
    root = Path(tempfile.mkdtemp(prefix="gpunion-demo-"))
    campus = LocalCampus(
        root=root,
        timing=TIMING,
        unsandboxed=options.runtime == "sandbox" and not _can_sandbox(),
        environment={"GPUNION_RUNTIME": options.runtime, **play.environment},
    )
    kept = False
    try:
        _open_campus(campus, audience, play.labs)
        outcome = play.perform(campus, audience)
        if options.json:
            print(json.dumps(outcome.plain()))
        kept = options.keep
        if kept:
            _say_where(campus, audience, play.labs)
        return 0 if outcome.good else 1
    except (DemoFailed, CampusTrouble, owner_client.OwnerTrouble) as trouble:
        print(f"The demo failed: {trouble}", file=sys.stderr)
        _show_logs(campus, play.labs)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Everything the demo started is being removed.", file=sys.stderr)
        return 130
    finally:
        if not kept:
            campus.close()


def _play(campus: LocalCampus, audience: Audience) -> Outcome:
    client = campus.client()
    audience.act("A student submits a training run")
    job_id = submit(client, TRAINING)
    audience.tell(f"job {job_id} submitted; an uninterrupted run of the same seed is the yardstick")
    reference = reference_run(campus.root, TRAINING)
    watch = Watch(client, job_id, audience)
    watch.until("placed and running", lambda job: job["phase"] == "running", ACT_LIMIT_S)
    watch.until("two checkpoints", lambda job: _saved_here(watch, job, 2), ACT_LIMIT_S)

    audience.act("A colleague hands in an urgent job, which only alpha's card can run")
    urgent_id = submit_urgent(client)
    watch.until("made room for it", lambda job: _moves(job) >= 1, ACT_LIMIT_S)
    watch.until("the urgent one began", lambda _: _began_after_s(client.job(urgent_id)) > 0, ACT_LIMIT_S)
    began_s = _began_after_s(client.job(urgent_id))
    audience.tell(f"the urgent job {urgent_id} began {began_s:.1f} s after it was handed in")
    watch.until("on alpha again after that", lambda job: _moves(job) >= 2, ACT_LIMIT_S)

    audience.act(f"The owner of alpha wants it back in {NOTICE_S:.0f} s")
    owner_client.reclaim(campus.state_dir("alpha"), NOTICE_S)
    job = watch.until("moved off alpha", lambda job: _moves(job) >= 3, ACT_LIMIT_S)
    second = _where(job)
    watch.until("a checkpoint on the second node", lambda job: _saved_here(watch, job, 1), ACT_LIMIT_S)
    watch.until("work that is not saved yet", lambda job: _unsaved_steps(job) >= UNSAVED_STEPS, ACT_LIMIT_S)

    audience.act(f"{second} dies without a word: agent and guest killed")
    campus.lose_power(second)
    audience.died(second)
    watch.until("recovered elsewhere", lambda job: _moves(job) >= 4, ACT_LIMIT_S)
    watch.until("a checkpoint on the third node", lambda job: _saved_here(watch, job, 1), ACT_LIMIT_S)

    audience.act("The owner of alpha is done and lends it again")
    owner_client.resume(campus.state_dir("alpha"))
    watch.until("home again", lambda job: _moves(job) >= 5, ACT_LIMIT_S)
    watch.tell_saves = False  # from here on it is the same again and again
    job = watch.until("finished", lambda job: job["phase"] == "succeeded", 2 * ACT_LIMIT_S)
    with audience.finished():
        outcome = outcome_of(job, compare(campus.vault_dir, job, reference))
        show(outcome, audience)
    return outcome


USUAL = Play(labs=LABS, environment={}, perform=_play)
IN_WINDOWS = Play(labs=in_windows.LABS, environment=in_windows.ENVIRONMENT, perform=in_windows.play)


def _open_campus(campus: LocalCampus, audience: Audience, labs: tuple[Lab, ...]) -> None:
    audience.act(f"{NUMBERS[len(labs)]} labs join their machines to a campus on this computer")
    campus.start_coordinator()
    for lab in labs:
        campus.join(lab)
        campus.start_agent(lab.name)
        card = f"{lab.model} ({lab.memory_gib} GiB, speed {lab.speed:g}; declared, not real)"
        audience.tell(f"{lab.name} of lab {lab.lab} lends {NUMBERS[lab.gpus].lower()} {card}")
    if campus.environment["GPUNION_RUNTIME"] != "sandbox":
        audience.tell(f"guests run in {campus.environment['GPUNION_RUNTIME']} containers")
    if campus.unsandboxed:
        audience.tell(
            "bubblewrap is not here: guests are plain processes, UNSANDBOXED (apt-get install bubblewrap)"
        )


def _can_sandbox() -> bool:
    from gpunion.agent.compose.runtimes import can_sandbox

    return can_sandbox()


def _moves(job: Job) -> int:
    return sum(migration["phase"] == "done" for migration in job["migrations"])


def _began_after_s(job: Job) -> float:
    """Nought before it has begun."""
    began = next((run["started_at"] for run in job["runs"] if run["started_at"]), job["submitted_at"])
    return (datetime.fromisoformat(began) - datetime.fromisoformat(job["submitted_at"])).total_seconds()


def _unsaved_steps(job: Job) -> int:
    return int(job["live"]["step"]) - int(job["durable"]["step"]) if job["live"] and job["durable"] else 0


def _where(job: Job) -> str:
    return str(job["runs"][-1]["node_id"])


def _saved_here(watch: Watch, job: Job, count: int) -> bool:
    """So many checkpoints of the current run are durable."""
    run = job["runs"][-1]
    return run["phase"] == "running" and watch.durable_of_run(run["id"]) >= count


def _say_where(campus: LocalCampus, audience: Audience, labs: tuple[Lab, ...]) -> None:
    for lab in labs:
        if campus.agent(lab.name).poll() is not None:
            campus.start_agent(lab.name)  # the one that died in the play
    audience.say("")
    audience.say(f"The campus is still running in {campus.root}. Try:")
    audience.say(f"  export GPUNION_URL={campus.url} GPUNION_TOKEN=$(cat {campus.data_dir}/admin.token)")
    audience.say("  gpunion ps -a; gpunion nodes; gpunion run -- python -c 'print(1)'")
    audience.say(f"  gpunion status --state-dir {campus.state_dir('alpha')}")
    pids = [campus.coordinator.pid, *(campus.agent(lab.name).pid for lab in labs)]
    audience.say(f"To end it: kill {' '.join(str(pid) for pid in pids)}; rm -r {campus.root}")


def _show_logs(campus: LocalCampus, labs: tuple[Lab, ...]) -> None:
    for name in ("coordinator", *(lab.name for lab in labs)):
        path = campus.log_of(name)
        if path.exists():
            tail: Any = path.read_text(errors="replace").splitlines()[-8:]
            print(f"--- {name}", *tail, sep="\n", file=sys.stderr)
