"""Which guests may stay under an owner's terms: asked when they change, and when a machine restarts."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import Guest
from gpunion.domain.nodes.terms import Terms
from gpunion.text import counted, size_in_words


def unwelcome(terms: Terms, guests: Iterable[Guest]) -> dict[RunId, str]:
    """Why each of those who may not stay may not, in words for them. Who came first stays first."""
    going: dict[RunId, str] = {}
    staying: list[Guest] = []
    for guest in sorted(guests, key=lambda guest: (guest.came_s, guest.run_id)):
        why = _not_admitted(terms, guest) or _too_much(terms, [*staying, guest])
        if why:
            going[guest.run_id] = why
        else:
            staying.append(guest)
    return going


def _not_admitted(terms: Terms, guest: Guest) -> str:
    if guest.session and not terms.sessions:
        return "its owner no longer lets anybody work in guests"
    if terms.admits(guest.lab, guest.user):
        return ""
    if not terms.admits_lab(guest.lab):
        return f"its owner no longer admits guests of lab '{guest.lab}'"
    return f"its owner no longer admits {guest.user or 'guests without a name'}"


def _too_much(terms: Terms, guests: list[Guest]) -> str:
    if len(guests) > terms.max_guests:
        return f"its owner now allows {counted(terms.max_guests, 'guest')}"
    cpus = sum(guest.grant.cpus for guest in guests if not guest.gave_place)
    if terms.cpus is not None and cpus > terms.cpus:
        return f"its owner now lends {counted(float(terms.cpus), 'CPU')}"
    memory_bytes = sum(guest.grant.memory_bytes for guest in guests)
    if terms.memory_bytes is not None and memory_bytes > terms.memory_bytes:
        return f"its owner now lends {size_in_words(terms.memory_bytes)} of memory"
    return ""
