"""Checks of the owner's terms: what of them is not in force here, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.checks.finding import Finding, ok, warning
from gpunion.cli.terms import park_refused

if TYPE_CHECKING:
    from gpunion.agent.settings import Settings


MENDS = {"park": "install NVIDIA's driver 570 or newer"}


def check_terms(folder: Path, settings: Settings) -> list[Finding]:
    from gpunion.agent.owner import client as owner_client

    try:
        terms = owner_client.status(folder)["status"]["terms"]
    except owner_client.OwnerTrouble:
        terms = _from_files(folder, settings)
    found = []
    if terms["trouble"]:
        found.append(warning("terms", f"older ones are in force: {terms['trouble']}", "gpunion terms edit"))
    if terms["calendar_trouble"]:
        mend = "mend the file, or gpunion terms set calendar="
        found.append(warning("calendar", terms["calendar_trouble"], mend))
    for what in terms["not_enforced"]:
        key = what.partition(":")[0].partition(" ")[0]
        mend = f"{MENDS.get(key, 'nothing to mend')}; or gpunion terms set {key}="
        found.append(warning("terms", f"not enforced: {what}", mend))
    return found or [ok("terms", "all of them are in force")]


def _from_files(folder: Path, settings: Settings) -> dict[str, object]:
    """Without an agent: what it would find when it starts."""
    from gpunion.agent.compose.calendar import calendar
    from gpunion.agent.terms.in_force import Found, TermsKeeper
    from gpunion.domain.nodes.terms import OwnersTerms

    terms = OwnersTerms(terms=settings.terms, house=settings.house)
    keeper = TermsKeeper(folder, Found(terms=terms, trouble=settings.terms_trouble), calendar())
    trouble = keeper.calendar_problem()
    refused = park_refused(settings, terms)
    return {"trouble": settings.terms_trouble, "calendar_trouble": trouble, "not_enforced": refused}
