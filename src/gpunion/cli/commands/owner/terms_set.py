"""`gpunion terms set`: change what you grant; it counts at once, also for who is here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpunion.cli.agent_socket import add_state_dir, state_dir
from gpunion.cli.context import Context
from gpunion.cli.exits import OK, USAGE, Trouble
from gpunion.cli.terms import TERMS_JSON, agent_says, change_file, refusal, say

if TYPE_CHECKING:
    from gpunion.domain.nodes.terms import OwnersTerms

JSON = TERMS_JSON
EXAMPLES = (
    "gpunion terms set notice=60s hours='Mon-Fri 19:00-08:00, Sat-Sun'",
    "gpunion terms set allow.labs=vision,speech caps.temperature=83 caps.vram=16GiB",
    "gpunion terms set hours=",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "assignments",
        nargs="+",
        metavar="KEY=VALUE",
        help="what to change; nothing after the = means as usual (gpunion terms lists the keys)",
    )
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.owner import client as owner_client
    from gpunion.agent.terms.file import TermsTrouble, assignments, changed, written
    from gpunion.domain.nodes.terms import OwnersTerms

    place = state_dir(arguments, context)
    try:
        changes = assignments(arguments.assignments)
    except TermsTrouble as trouble:
        raise Trouble(str(trouble), next_step="gpunion terms, to see the keys", code=USAGE) from trouble
    if changes.get("calendar"):
        changes["calendar"] = str(context.here / changes["calendar"])
    try:
        changed(OwnersTerms(), changes)  # whatever the other terms are, these values have to make sense
    except TermsTrouble as trouble:
        raise refusal(str(trouble), USAGE) from trouble

    def change(terms: OwnersTerms) -> tuple[OwnersTerms, str]:
        after = changed(terms, changes)
        return after, written(after)

    answer = agent_says(place, lambda: owner_client.change_terms(place, changes))
    say(context, answer or change_file(place, context, change))
    return OK
