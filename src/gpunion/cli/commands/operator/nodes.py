"""`gpunion nodes`: the machines of the campus, and what they are doing."""

from __future__ import annotations

import argparse
from collections import Counter

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.free import show_free
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import shown_duration, shown_kinds, shown_size

CONNECTS = True
JSON = "`{nodes: [...]}`; a node as in GET /nodes, with --free as in GET /free (docs/http-api.md)."
# Said of a machine that shares: nobody new comes while it is so.
DISKS = {"short": ["DISK NEARLY FULL"], "full": ["DISK FULL"], "failing": ["DISK FAILS"]}
EXAMPLES = ("gpunion nodes", "gpunion nodes --free", "gpunion nodes --all")


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="those too that left more than a day ago")
    which.add_argument("--free", action="store_true", help="what anybody could have now, and until when")


def run(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.free:
        show_free(context.campus(arguments).free(), context.screen)
        return OK
    nodes = context.campus(arguments).nodes(all=arguments.all)
    if context.screen.as_json:
        context.screen.data({"nodes": nodes})
    elif not nodes:
        context.screen.line(
            "No machine lends yet. Next: gpunion coordinator token, "
            "then gpunion join and gpunion agent on a machine."
        )
    else:
        columns = ("NODE", "LAB", "PHASE", "GPUS", "CAPABILITY", "CUDA", "BUSY", "NOTICE", "LENT", "HEARD")
        context.screen.table(Table(columns=columns, rows=[_row(node) for node in nodes]))
        for node in nodes:
            if node.get("isolated_because"):
                context.screen.line(
                    f"{node['id']} is isolated: {node['isolated_because']}. It gets no guests; those it had "
                    f"go on elsewhere. Next: look after its agent, then gpunion nodes accept {node['id']}"
                )
            if _cannot_save(node):
                context.screen.line(
                    f"{node['id']} gets no jobs that it could not save. It says: {node['vault_trouble']}"
                )
    return OK


def _row(node: Json) -> list[str]:
    gpus = node["gpus"]
    return [
        str(node["id"]),
        str(node["lab"] or "-"),
        _phase(node),
        "; ".join(filter(None, [_whole(gpus), *_sliced(gpus)])) or "none",
        ", ".join(sorted({gpu["compute_capability"] or "?" for gpu in gpus})) or "-",
        ", ".join(sorted({_cuda(gpu) for gpu in gpus})) or "-",
        f"{sum(gpu['run_id'] is not None for gpu in gpus)}/{len(gpus)}",
        shown_duration(node["terms"]["notice_s"]),
        shown_duration(node["lent_gpu_s"]),
        _heard(node),
    ]


def _whole(gpus: list[Json]) -> str:
    return shown_kinds(gpu for gpu in gpus if not gpu["card"])


def _sliced(gpus: list[Json]) -> list[str]:
    """By card: how many of which shape it is cut into. Cards that are cut alike are told once."""
    cards: dict[str, list[Json]] = {}
    for gpu in gpus:
        if gpu["card"]:
            cards.setdefault(gpu["card"], []).append(gpu)
    alike = Counter(_cut(slices) for slices in cards.values())
    return [f"{number} x {words}" for words, number in sorted(alike.items())]


def _cut(slices: list[Json]) -> str:
    shapes = Counter(gpu["profile"] or shown_size(gpu["memory_bytes"]) for gpu in slices)
    words = (f"{number} x {shape}" if number > 1 else shape for shape, number in shapes.items())
    model = slices[0]["model"].partition(" MIG ")[0]
    return f"{model} in slices ({', '.join(words)})"


def _cuda(gpu: Json) -> str:
    """The highest that its driver supports, and the driver."""
    return (gpu["cuda"] or "?") + (f" ({gpu['driver']})" if gpu["driver"] else "")


def _heard(node: Json) -> str:
    """Of a silent one nobody remembers the moment, only when its silence was noticed."""
    if node["last_heard_at"] is None and node["phase"] == "silent":
        return f"over {ago(node['phase_since'])}"
    return ago(node["last_heard_at"])


def _phase(node: Json) -> str:
    away = not node["connected"] and node["phase"] not in ("silent", "left")
    words = [f"{node['phase']} (away)" if away else str(node["phase"])]
    if node.get("isolated_because"):
        words.append("ISOLATED")
    if _cannot_save(node):
        words.append("CANNOT SAVE")
    if node["phase"] == "sharing":
        words += DISKS.get(node.get("disk", "fine"), [])
    return ", ".join(words if node["sandboxed"] else [*words, "UNSANDBOXED"])


def _cannot_save(node: Json) -> bool:
    # A coordinator from before does not say.
    return bool(node.get("vault_trouble")) and node["phase"] != "left"
