"""`gpunion agent`: lend this machine until told otherwise."""

from __future__ import annotations

import argparse

from gpunion.cli.agent_socket import add_state_dir, owner_settings, state_dir
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR
from gpunion.cli.extras import missing_extra

JSON = None
EXAMPLES = ("gpunion agent",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        help="how its log is written (text at a terminal, else json)",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    settings = owner_settings(state_dir(arguments, context), context)
    try:
        from gpunion.agent.main import EXIT_REFUSED, run_agent
    except ImportError as error:
        raise missing_extra(error, "agent") from error
    code = run_agent(settings, arguments.log_format)
    return ERROR if code == EXIT_REFUSED else code
