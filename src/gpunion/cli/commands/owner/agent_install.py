"""`gpunion agent install`: lend from every boot on, as a service of systemd."""

from __future__ import annotations

import argparse
import os

from gpunion.cli.agent_socket import add_state_dir, owner_settings, state_dir
from gpunion.cli.context import Context
from gpunion.cli.exits import OK, Trouble

JSON = "`{unit_file, text, installed}`; `installed` is false for --dry-run."
EXAMPLES = ("gpunion agent install", "gpunion agent install --user", "gpunion agent install --dry-run")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", action="store_true", help="as your own service, without root")
    parser.add_argument("--dry-run", action="store_true", help="only show the unit; change nothing")
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.machine.service import LET_LINGER, Service, ServiceTrouble, install, lingers, unit_text

    folder = state_dir(arguments, context)
    settings = owner_settings(folder, context)
    try:
        service = Service(state_dir=folder, runtime=settings.runtime, user=arguments.user)
        text = unit_text(service)
        if not arguments.dry_run:
            install(service)
    except ServiceTrouble as trouble:
        what, _, next_step = str(trouble).partition("Next: ")
        raise Trouble(what.strip().removesuffix("."), next_step=next_step) from trouble
    if context.screen.as_json:
        shown = {"unit_file": str(service.unit_file), "text": text, "installed": not arguments.dry_run}
        context.screen.data(shown)
    elif arguments.dry_run:
        context.screen.line(f"# {service.unit_file}\n{text}")
    else:
        context.screen.line(f"The agent runs, and starts with the machine: {service.unit_file}")
        if service.user and not lingers(os.geteuid()):
            context.screen.line(
                f"It ends when you log out, and its guests with it, until you have said: {LET_LINGER}"
            )
        context.screen.line("Next: gpunion status, to see who is here; gpunion agent uninstall takes it away")
    return OK
