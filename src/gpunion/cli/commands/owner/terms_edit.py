"""`gpunion terms edit`: the whole of your terms in your editor."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from gpunion.cli.agent_socket import add_state_dir, state_dir
from gpunion.cli.context import Context
from gpunion.cli.exits import OK, USAGE, Trouble
from gpunion.cli.terms import TERMS_JSON, agent_says, change_file, from_file, refusal, say, shown_of_file

JSON = TERMS_JSON
EXAMPLES = ("EDITOR=nano gpunion terms edit",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.owner import client as owner_client
    from gpunion.agent.terms.file import parse_terms

    place = state_dir(arguments, context)
    now = agent_says(place, lambda: owner_client.status(place))
    terms = now["terms"] if now is not None else shown_of_file(place, context, *from_file(place, context))
    draft = _edited(context, terms["text"])
    text = draft.read_text(encoding="utf-8")
    try:
        _check(text)
        answer = agent_says(place, lambda: owner_client.replace_terms(place, text))
        say(context, answer or change_file(place, context, lambda _: (parse_terms(text), text)))
    except Trouble as trouble:
        raise Trouble(
            str(trouble), next_step=f"mend what you wrote, it is in {draft}", code=trouble.code
        ) from trouble
    draft.unlink(missing_ok=True)
    return OK


def _check(text: str) -> None:
    from gpunion.agent.terms.file import TermsTrouble, parse_terms

    try:
        parse_terms(text)
    except TermsTrouble as trouble:
        raise refusal(str(trouble), USAGE) from trouble


def _edited(context: Context, text: str) -> Path:
    """What the owner made of the text. What they wrote stays where it is until it was taken."""
    descriptor, name = tempfile.mkstemp(prefix="gpunion-terms-", suffix=".toml")
    draft = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    command = context.environment.get("VISUAL") or context.environment.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(command), name])
    except OSError as error:
        draft.unlink()
        raise Trouble(
            f"the editor {command} cannot be started: {error.strerror}",
            next_step="EDITOR=nano gpunion terms edit, or gpunion terms set KEY=VALUE",
            code=USAGE,
        ) from error
    if done.returncode != 0:
        wrote = draft.read_bytes() != text.encode()
        if not wrote:
            draft.unlink()
        raise Trouble(
            f"the editor ended with {done.returncode}; nothing was changed",
            next_step=f"what you wrote is in {draft}" if wrote else "",
            code=USAGE,
        )
    return draft
