"""`gpunion usage plan`: the past again, in the simulator, with machines added or taken away."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import datetime
from statistics import median

from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, Trouble
from gpunion.cli.output.progress import Progress
from gpunion.cli.quantities import positive_count, positive_duration_s
from gpunion.lab.commands.plan_in_words import show_plan
from gpunion.lab.replay.added_machines import Added, added
from gpunion.lab.replay.again import Waits, waits_again
from gpunion.lab.replay.from_answers import Json, recorded
from gpunion.lab.replay.recorded import PastMachine, Recorded

CONNECTS = True
JSON = """`{simulation: true, for_s, jobs, left_out, recorded_median_wait_s, seeds, added, as_it_was,
changed}`; of the last two `{machines, owners_drawn, median_wait_s, low_s, high_s, mean_wait_s, never_ran,
utilisation}`, low and high over the seeds; `added`: of each machine more what was taken for granted, whether
its model is `known`, and what is called most like it (`did_you_mean`)."""
EXAMPLES = (
    "gpunion usage plan --add 2xRTX4090",
    "gpunion usage plan --since 30d --add 8xA100 --add 8xA100 --seeds 5",
    "gpunion usage plan --without alpha",
)
SEEDS = 3
_ADDED = re.compile(r"(\d{1,2})\s*x\s*(\S.{0,60})")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add", type=_some_gpus, action="append", default=[], metavar="NxMODEL",
        help="one machine more, with that many GPUs of that model; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--without", action="append", default=[], metavar="NODE", help="without that machine; may be repeated"
    )
    parser.add_argument(
        "--since", type=positive_duration_s, default=positive_duration_s("7d"), metavar="AGO",
        help="how much of the past is run again (default: 7d)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=positive_count, default=SEEDS, metavar="N",
        help=f"how often, each time with owners who come at other moments (default: {SEEDS})",
    )  # fmt: skip


def run(arguments: argparse.Namespace, context: Context) -> int:
    past = _past(context, arguments)
    gone = set(arguments.without) - {machine.name for machine in past.machines}
    if gone:
        raise Trouble(
            f"there is no machine {sorted(gone)[0]}",
            next_step="gpunion nodes lists those there are",
            code=NOT_FOUND,
        )
    more = [added(gpus, model, at + 1, past.machines) for at, (gpus, model) in enumerate(arguments.add)]
    changed = [one for one in past.machines if one.name not in arguments.without]
    changed += [one.machine for one in more]
    if not past.waits_s():
        raise Trouble(
            "no job was handed in then: there is nothing to run again",
            next_step="gpunion usage plan --since 30d looks further back",
            code=NOT_FOUND,
        )
    seeds = range(1, arguments.seeds + 1)
    with Progress(context.screen, 2 * len(seeds), "simulations") as progress:
        before, after = list[Waits](), list[Waits]()
        for seed in seeds:
            before.append(waits_again(past, past.machines, seed))
            progress.reach(2 * seed - 1)
            after.append(waits_again(past, changed, seed))
            progress.reach(2 * seed)
    told = _data(arguments, past, (before, past.machines), (after, changed))
    told["added"] = [_more(one) for one in more]
    if context.screen.as_json:
        context.screen.data(told)
    else:
        show_plan(told, context.screen)
    return OK


def _past(context: Context, arguments: argparse.Namespace) -> Recorded:
    campus = context.campus(arguments)
    asked = campus.past_requests(for_s=arguments.since)
    usage = campus.usage(for_s=arguments.since)
    return recorded(asked, usage, campus.nodes(), counted_s=_counted_s(usage, asked["length_s"]))


def _counted_s(usage: Json, length_s: float) -> float:
    if usage["history_since"] is None:
        return length_s
    until, since = (datetime.fromisoformat(usage[name]) for name in ("until", "history_since"))
    return min(length_s, max(1.0, (until - since).total_seconds()))


def _some_gpus(text: str) -> tuple[int, str]:
    found = _ADDED.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no machine; write it like 2xRTX4090 or 8xA100")
    return int(found[1]), found[2]


Outcome = tuple[list[Waits], Sequence[PastMachine]]


def _figures(outcome: Outcome) -> Json:
    waits, machines = outcome
    medians = [one.median_s for one in waits]
    return {
        "machines": len(machines),
        "owners_drawn": sum(machine.phases is None for machine in machines),
        "median_wait_s": median(medians),
        "low_s": min(medians),
        "high_s": max(medians),
        "mean_wait_s": sum(one.mean_s for one in waits) / len(waits),
        "never_ran": median(one.never_ran for one in waits),
        "utilisation": sum(one.utilisation for one in waits) / len(waits),
    }


def _data(arguments: argparse.Namespace, past: Recorded, before: Outcome, after: Outcome) -> Json:
    return {
        "simulation": True,
        "for_s": arguments.since,
        "jobs": len(past.jobs),
        "left_out": past.left_out,
        "recorded_median_wait_s": median(past.waits_s()),
        "seeds": arguments.seeds,
        "as_it_was": _figures(before),
        "changed": _figures(after),
    }


def _more(one: Added) -> Json:
    card, capacity = one.gpus[0], one.machine.facts.capacity
    return {
        "gpus": len(one.gpus),
        "model": one.model,
        "known": one.known,
        "did_you_mean": one.meant,
        "gpu_memory_bytes": card.memory_bytes,
        "gpu_memory_known": one.memory_known,
        "speed": card.speed,
        "cpus": capacity.cpus,
        "memory_bytes": capacity.memory_bytes,
    }
