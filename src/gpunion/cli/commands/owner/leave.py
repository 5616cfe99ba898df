"""`gpunion leave`: guests go within the notice, then nothing of us is left on the machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.agent_socket import STATUS_JSON, add_state_dir, ask, joined, say, state_dir
from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, ERROR, OK, UNAVAILABLE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.quantities import duration_s, shown_duration, shown_size

if TYPE_CHECKING:
    from gpunion.agent.leaving import Receipt

JSON = (
    STATUS_JSON
    + """ With `--purge`: `{removed, left_behind, shared, freed_bytes, node_id, coordinator,
coordinator_told, took_s}`; `removed` has lists of `guests`, `processes`, `containers`, `images`, `cgroups`,
`mounts`, `files`, `units` and `program`."""
)
LOOK_S, LOOKS_MAX = 0.1, 50
EXAMPLES = ("gpunion leave", "gpunion leave --notice 10m", "gpunion leave --purge")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--notice",
        type=duration_s,
        metavar="TIME",
        help="how long guests may take to save themselves (your terms)",
    )
    parser.add_argument(
        "--purge",
        action="store_true",
        help="wait until they are gone, remove everything of ours, and print a receipt",
    )
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    folder = state_dir(arguments, context)
    if not arguments.purge:
        answer = _leave(folder, arguments.notice)
        _wait_for_the_end(folder, context, answer)
        return say(context, answer)
    try:
        from gpunion.agent.leaving import purge
    except ImportError as error:
        raise missing_extra(error, "agent") from error
    _check_it_is_there(folder)
    receipt = purge(folder, arguments.notice, context.screen.note)
    if context.screen.as_json:
        context.screen.data(asdict(receipt))
    else:
        _show(receipt, folder, context)
    return OK if receipt.clean else ERROR


def _check_it_is_there(folder: Path) -> None:
    """In the wrong place nothing is found, and that is no receipt."""
    from gpunion.agent.machine.service import installed

    if folder.is_dir() or installed(folder):
        return
    raise Trouble(
        f"Nothing was removed: there is no state directory {folder}",
        next_step="name the one your agent uses with --state-dir or GPUNION_STATE_DIR",
        code=CONFLICT,
    )


def _wait_for_the_end(folder: Path, context: Context, answer: Json) -> None:
    """The agent deletes what it knew a moment later: who joins again at once finds nothing in the way."""
    from gpunion.agent.settings import SETTINGS_FILE

    if answer["status"]["guests"]:
        return  # they have their notice
    for _ in range(LOOKS_MAX):
        if not (folder / SETTINGS_FILE).exists():
            return
        context.pause(LOOK_S)


def _leave(folder: Path, notice_s: float | None) -> Json:
    from gpunion.agent.owner import client as owner_client

    try:
        return ask(lambda: owner_client.leave(folder, notice_s))
    except Trouble as trouble:
        if trouble.code == UNAVAILABLE and not joined(folder):
            raise Trouble(
                f"There is nothing to leave: no agent of {folder} belongs to a campus",
                next_step="gpunion leave --purge, to remove what may be left of it; or name the right one "
                "with --state-dir or GPUNION_STATE_DIR",
                code=CONFLICT,
            ) from trouble
        if trouble.code == UNAVAILABLE and folder.is_dir():
            trouble.next_step = "gpunion leave --purge, which needs no agent; or gpunion agent, to start it"
        raise


def _show(receipt: Receipt, folder: Path, context: Context) -> None:
    line = context.screen.line
    whose = f" {receipt.node_id}" if receipt.node_id else ""
    line(f"Receipt: what was removed of{whose or ' us'}, in {shown_duration(receipt.took_s)}")
    for name, items in receipt.removed.items():
        if items:
            line(f"  {name}: {', '.join(items)}")
    if not any(receipt.removed.values()):
        line(f"  nothing: there was nothing of ours in {folder}")
    line(f"  disk: {shown_size(receipt.freed_bytes)} freed")
    for item in receipt.shared:
        line(f"  not removed: {item}")
    if receipt.left_behind:
        line("STILL HERE:")
        for item in receipt.left_behind:
            line(f"  {item}")
        if receipt.left_only_yours:
            line("Next: keep it, or remove it yourself")
        else:
            line("Next: run this again as root, or as the agent's user")
    elif any(receipt.removed.values()):
        line("Nothing of ours is left on this machine.")
    else:
        line("An agent with another directory is found with --state-dir or GPUNION_STATE_DIR.")
    if receipt.coordinator and not receipt.coordinator_told:
        line(
            f"The coordinator at {receipt.coordinator} could not be told: it misses {receipt.node_id}, gives "
            "its jobs to other nodes, and shows it as silent.\n"
            f"Next: have its operator run: gpunion nodes rm {receipt.node_id}"
        )
