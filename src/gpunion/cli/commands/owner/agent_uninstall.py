"""`gpunion agent uninstall`: no agent of systemd's any more. Who is here stays until their leases end."""

from __future__ import annotations

import argparse

from gpunion.cli.agent_socket import add_state_dir, state_dir
from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, Trouble

JSON = "`{removed}`: the unit files that were taken away."
EXAMPLES = ("gpunion agent uninstall",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.machine.service import ServiceTrouble, installed, uninstall

    found = installed(state_dir(arguments, context))
    if not found:
        raise Trouble(
            "no service of systemd starts an agent over this directory",
            next_step="gpunion leave, to leave the campus; gpunion kill, to end who is here",
            code=NOT_FOUND,
        )
    try:
        for service in found:
            uninstall(service)
    except ServiceTrouble as trouble:
        what, _, next_step = str(trouble).partition("Next: ")
        raise Trouble(what.strip().removesuffix("."), next_step=next_step) from trouble
    removed = [str(service.unit_file) for service in found]
    if context.screen.as_json:
        context.screen.data({"removed": removed})
    else:
        context.screen.line(f"The agent is stopped and does not start again: {', '.join(removed)} removed.")
        context.screen.line("Guests that are here end with their leases. To end them now: gpunion kill")
    return OK
