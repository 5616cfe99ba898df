"""`gpunion usage gpus`: what the history has of single GPUs."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, Trouble
from gpunion.cli.output.gpu_history import show_gpu_history
from gpunion.cli.quantities import positive_duration_s, some_name

CONNECTS = True
JSON = """`{since, point_s, gpus: [{node, index, uuid, model, points}], left_out}` as GET /usage/gpus answers
(docs/http-api.md, docs/usage.md)."""
EXAMPLES = ("gpunion usage gpus", "gpunion usage gpus --node alpha --since 24h")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=positive_duration_s, default=positive_duration_s("24h"), metavar="AGO",
        help="how far back, e.g. 24h, 30d (default: 24h)",
    )  # fmt: skip
    parser.add_argument(
        "--node", type=some_name, help="of this machine; within the last day then by the minute"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    answer = campus.gpu_history(for_s=arguments.since, node=arguments.node)
    if arguments.node and not answer["gpus"]:  # the history may still have one that was removed
        if all(node["id"] != arguments.node for node in campus.nodes(all=True)):
            raise Trouble(
                f"there is no machine {arguments.node}",
                next_step="gpunion nodes lists those there are",
                code=NOT_FOUND,
            )
    if context.screen.as_json:
        context.screen.data(answer)
    else:
        show_gpu_history(answer, context.screen, for_s=arguments.since)
    return OK
