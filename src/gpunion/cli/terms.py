"""What the commands about terms share: asking the agent, or the file where no agent runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.agent_socket import ask, owner_settings
from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, UNAVAILABLE, Trouble

if TYPE_CHECKING:
    from gpunion.agent.settings import Settings
    from gpunion.domain.nodes.terms import OwnersTerms

TERMS_JSON = """`{message, terms}`. `terms` has `values` (by key, as written; empty: as usual), `text` (the
file), `file`, `trouble` (why what is written in it is not in force), `calendar_trouble`, `not_enforced` (what
nothing on this machine can hold guests to), `lent_now`, `changes_at`, `lent_in_spite` (of the hours, by your
word) and `agent_runs`."""


def agent_says(place: Path, question: Callable[[], Json]) -> Json | None:
    """None: no agent runs there, so there is only the file."""
    try:
        answer = ask(question)
    except Trouble as trouble:
        if trouble.code == UNAVAILABLE and place.is_dir():
            return None
        raise
    return {"message": answer["message"], "terms": answer["status"]["terms"]}


def from_file(place: Path, context: Context) -> tuple[OwnersTerms, str]:
    """The terms an agent would start with, and what is wrong with the file. Trouble: there are none."""
    from gpunion.domain.nodes.terms import OwnersTerms

    settings = owner_settings(place, context)
    return OwnersTerms(terms=settings.terms, house=settings.house), settings.terms_trouble


def park_refused(settings: Settings, terms: OwnersTerms) -> list[str]:
    """What an agent would find that starts with these terms, as far as it can be told without one."""
    if not terms.terms.park:
        return []
    from gpunion.agent.compose.gpus import why_no_park
    from gpunion.agent.terms.editor import unparkable

    why = why_no_park(settings)
    return [unparkable(why)] if why else []


def shown_of_file(place: Path, context: Context, terms: OwnersTerms, trouble: str) -> Json:
    from gpunion.agent.terms.file import KEYS, TERMS_FILE, shown_value, written

    return {
        "values": {key.name: shown_value(terms, key) for key in KEYS},
        "text": written(terms),
        "file": str(place / TERMS_FILE),
        "trouble": trouble,
        "calendar_trouble": "",
        "not_enforced": park_refused(owner_settings(place, context), terms),
        "lent_now": None,
        "changes_at": None,
        "lent_in_spite": False,
        "agent_runs": False,
    }


def change_file(
    place: Path, context: Context, change: Callable[[OwnersTerms], tuple[OwnersTerms, str]]
) -> Json:
    """Checked as the agent would. `change` gives the new terms and the text to write."""
    from gpunion.agent.compose.calendar import calendar
    from gpunion.agent.terms.file import TERMS_FILE, TermsTrouble, differences
    from gpunion.agent.terms.in_force import Found, TermsKeeper

    before, trouble = from_file(place, context)
    keeper = TermsKeeper(place, Found(terms=before, trouble=trouble), calendar())
    try:
        after, text = change(before)
        keeper.read_calendar_of(after)
        keeper.write(after, text)
    except TermsTrouble as refused:
        raise refusal(str(refused)) from refused
    said = differences(before, after)
    message = f"Written to {place / TERMS_FILE}: {said}." if said else "Your terms are as they were."
    return {
        "message": f"{message} No agent runs; they count when it starts.",
        "terms": shown_of_file(place, context, after, ""),
    }


def refusal(trouble: str, code: int = CONFLICT) -> Trouble:
    return Trouble(f"{trouble}.\nNothing was changed: your terms are as before", code=code)


def say(context: Context, answer: Json) -> None:
    if context.screen.as_json:
        context.screen.data(answer)
        return
    context.screen.line(answer["message"])
    for line in warnings(answer["terms"]):
        context.screen.line(line)


def warnings(terms: Json) -> list[str]:
    lines = []
    if terms["trouble"]:
        lines.append(f"WARNING: {terms['file']} is not what is in force: {terms['trouble']}")
    if terms["calendar_trouble"]:
        lines.append(f"WARNING: the calendar cannot be read: {terms['calendar_trouble']}")
    return lines + [f"Not enforced here: {what}" for what in terms["not_enforced"]]
