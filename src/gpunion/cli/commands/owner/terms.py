"""`gpunion terms`: what you grant, at a glance."""

from __future__ import annotations

import argparse

from gpunion.cli.agent_socket import add_state_dir, state_dir
from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.terms import TERMS_JSON, agent_says, from_file, shown_of_file, warnings

JSON = TERMS_JSON
EXAMPLES = ("gpunion terms",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.owner import client as owner_client

    place = state_dir(arguments, context)
    answer = agent_says(place, lambda: owner_client.status(place))
    if answer is None:
        terms, trouble = from_file(place, context)
        answer = {"message": "", "terms": shown_of_file(place, context, terms, trouble)}
    if context.screen.as_json:
        context.screen.data(answer)
        return OK
    _show(context, answer["terms"])
    return OK


def _show(context: Context, terms: Json) -> None:
    from gpunion.agent.terms.file import KEYS

    context.screen.line(_lending(terms))
    rows = [[key.name, terms["values"][key.name] or "-", key.about] for key in KEYS]
    context.screen.table(Table(columns=("KEY", "VALUE", "WHAT IT IS"), rows=list(rows)))
    for line in warnings(terms):
        context.screen.line(line)
    context.screen.line("To change them: gpunion terms set KEY=VALUE   gpunion terms edit")


def _lending(terms: Json) -> str:
    if not terms["agent_runs"]:
        return "No agent runs: nothing is lent. These terms count when it starts."
    if terms["lent_in_spite"]:
        return "By these terms the machine would not be lent now; you have lent it all the same."
    when = f", until {terms['changes_at']}" if terms["changes_at"] else ""
    if terms["lent_now"]:
        return f"By these terms the machine is lent now{when}."
    again = f", again from {terms['changes_at']}" if terms["changes_at"] else ""
    return f"By these terms the machine is not lent now{again}."
