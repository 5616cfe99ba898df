"""An owner's terms as text: `terms.toml` in the state directory, and `KEY=VALUE` on a command line.

Unknown keys are errors with a suggestion, impossible values are errors with the reason; nothing is taken over
by half. A key that is left out, or set to nothing, is as usual.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpunion.agent.terms.values import (
    DAY_S,
    HOURS,
    INDICES,
    PATH,
    PLACES,
    RATE,
    SIZE,
    TRUTH,
    WORDS,
    ZONE,
    Kind,
    choice,
    numbers,
    seconds,
)
from gpunion.domain.nodes.terms import FIGURES_FULL, FIGURES_SUMS, OwnersTerms

TERMS_FILE = "terms.toml"
FILE_LIMIT_BYTES = 256 * 1024


class TermsTrouble(ValueError):
    """What is wrong with the terms, in words for the owner."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    field: str
    kind: Kind
    about: str
    house: bool = False  # of the house rules, not of what the campus is told


# GPUs throttle themselves at about 90 C, and none is as cool as 40 C at work.
_DEGREES = numbers(40, 110, "degrees Celsius")
_FIGURES = choice(FIGURES_SUMS, FIGURES_FULL)
KEYS: tuple[Key, ...] = (
    Key("notice", "notice_s", seconds(DAY_S), "how long guests get to leave"),
    Key("hours", "hours", HOURS, "when it is lent, like Mon-Fri 19:00-08:00, Sat-Sun", house=True),
    Key("calendar", "calendar", PATH, "an .ics file; during its events it is not lent", house=True),
    Key("timezone", "timezone", ZONE, "of hours and calendar, like Europe/Berlin", house=True),
    Key("when_safe", "when_safe_s", seconds(7 * DAY_S, 1.0), "the limit of reclaim --when-safe", house=True),
    Key("signs", "signs", TRUTH, "tell the campus that somebody is here, never who", house=True),
    Key("figures", "figures", _FIGURES, "what the campus sees and keeps of your GPUs: sums, or full"),
    Key("max_guests", "max_guests", numbers(1, 1000, "guests", whole=True), "at most so many at once"),
    Key("autonomy", "autonomy_s", seconds(DAY_S), "how long guests go on without the coordinator"),
    Key("park", "park", TRUTH, "guests may stand still in memory while you use their GPU"),
    Key("park_memory", "park_bytes", SIZE, "for the GPU memory of parked guests"),
    Key("images", "images", WORDS, "only these container images: names, digests, patterns"),
    Key("egress", "egress", PLACES, "where guests with a network may go, like data.example:443"),
    Key("sessions", "sessions", TRUTH, "people may type in guests: notebooks, shells, ports"),
    Key("allow_unsandboxed", "allow_unsandboxed", TRUTH, "take guests where nothing shuts them in"),
    Key("allow.labs", "allow_labs", WORDS, "only guests of these labs"),
    Key("allow.people", "allow_people", WORDS, "only these people, whatever their lab"),
    Key("deny.labs", "deny_labs", WORDS, "no guests of these labs"),
    Key("deny.people", "deny_people", WORDS, "none of these people"),
    Key("prefer.labs", "prefer_labs", WORDS, "rather guests of these labs than others"),
    Key("prefer.people", "prefer_people", WORDS, "rather these people than others"),
    Key("caps.temperature", "temperature_c", _DEGREES, "no GPU hotter than this", house=True),
    Key("caps.vram", "vram_bytes", SIZE, "of each GPU's memory"),
    Key("caps.cpus", "cpus", numbers(0.01, 4096, "CPUs"), "of all guests together"),
    Key("caps.memory", "memory_bytes", SIZE, "of all guests together"),
    Key("caps.disk", "disk_bytes", SIZE, "of each guest", house=True),
    Key("caps.network", "network_bps", RATE, "for what guests save and leave, like 100Mbit"),
    Key("yield.login", "yield_login", TRUTH, "have it back while somebody is logged in", house=True),
    Key("yield.keyboard", "yield_keyboard", TRUTH, "have it back when somebody types", house=True),
    Key("yield.gpus", "yield_gpus", INDICES, "then only these GPUs", house=True),
    Key("yield.notice", "yield_notice_s", seconds(DAY_S), "then with this notice", house=True),
    Key("yield.quiet", "yield_quiet_s", seconds(DAY_S), "lend again after so much quiet", house=True),
)
_BY_NAME = {key.name: key for key in KEYS}
_GROUPS = {name.partition(".")[0] for name in _BY_NAME if "." in name}


def parse_terms(text: str) -> OwnersTerms:
    if len(text.encode(errors="replace")) > FILE_LIMIT_BYTES:
        raise TermsTrouble(f"terms of more than {FILE_LIMIT_BYTES} bytes are nobody's")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TermsTrouble(f"they are not TOML: {error}") from error
    return changed(OwnersTerms(), _flat(table))


def changed(terms: OwnersTerms, changes: Mapping[str, Any]) -> OwnersTerms:
    """The terms with some keys set; an empty value means: as usual. TermsTrouble says why not."""
    usual = OwnersTerms()
    for name, value in changes.items():
        key = _key(name)
        part = "house" if key.house else "terms"
        new = getattr(getattr(usual, part), key.field)
        if value not in ("", [], ()):
            try:
                new = key.kind.read(value)
            except ValueError as error:
                raise TermsTrouble(f"{name}: {error}") from error
        whole = replace(getattr(terms, part), **{key.field: new})
        terms = replace(terms, house=whole) if key.house else replace(terms, terms=whole)
    _refuse_contradictions(terms)
    return terms


def assignments(words: Iterable[str]) -> dict[str, str]:
    """`notice=60s` and the like."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise TermsTrouble(f"{word!r} is not KEY=VALUE; write it like notice=60s")
        if name.strip() in found:
            raise TermsTrouble(f"{name.strip()} is set twice")
        found[name.strip()] = value.strip()
        _key(name.strip())
    return found


def written(terms: OwnersTerms) -> str:
    """As TOML, with every key there is: what is as usual stands there as a comment."""
    lines = [
        "# What you grant to guests of this machine. gpunion terms set KEY=VALUE changes it as well.",
        "",
    ]
    group = ""
    for key in KEYS:
        head, dot, rest = key.name.partition(".")
        if dot and head != group:
            group = head
            lines += ["", f"[{group}]"]
        value = value_of(terms, key)
        shown = f"{rest if dot else head} = {key.kind.write(value)}" if value not in (None, "", ()) else None
        if shown is None or value == value_of(OwnersTerms(), key):
            shown = f"# {shown or (rest if dot else head) + ' ='}"
        lines.append(f"{shown}  # {key.about}")
    return "\n".join(lines) + "\n"


def value_of(terms: OwnersTerms, key: Key) -> Any:
    return getattr(terms.house if key.house else terms.terms, key.field)


def shown_value(terms: OwnersTerms, key: Key) -> str:
    """For people; empty where nothing is said."""
    value = value_of(terms, key)
    if value in (None, "", ()):
        return ""
    return str(key.kind.write(value)).strip("[]").replace('"', "")


def differences(before: OwnersTerms, after: OwnersTerms, *, for_others: bool = False) -> str:
    """What changed, in words; empty where nothing did. House rules are told to others by name only."""
    changes = []
    for key in KEYS:
        if value_of(before, key) != value_of(after, key):
            private = for_others and key.house
            changes.append(key.name if private else f"{key.name}={shown_value(after, key) or 'as usual'}")
    return "; ".join(changes)


def read_terms(path: Path) -> OwnersTerms:
    """TermsTrouble says why not."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_terms(file.read(FILE_LIMIT_BYTES + 1))
    except UnicodeDecodeError as error:
        raise TermsTrouble(f"{path} is no text: {error.reason}") from error
    except OSError as error:
        raise TermsTrouble(f"{path} cannot be read: {error.strerror}") from error


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if name in _GROUPS and isinstance(value, dict):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = value
    return flat


def _key(name: str) -> Key:
    key = _BY_NAME.get(name)
    if key is None:
        close = difflib.get_close_matches(name, sorted(_BY_NAME), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(_BY_NAME))}"
        raise TermsTrouble(f"{name!r} is not known; {hint}")
    return key


def _refuse_contradictions(owners: OwnersTerms) -> None:
    terms = owners.terms
    for what, yes, no in (
        ("labs", terms.allow_labs, terms.deny_labs),
        ("people", terms.allow_people, terms.deny_people),
        ("labs", terms.prefer_labs, terms.deny_labs),
        ("people", terms.prefer_people, terms.deny_people),
    ):
        both = sorted(set(yes) & set(no))
        if both:
            raise TermsTrouble(f"deny.{what}: {both[0]} is both wanted and denied")
    if owners.house.calendar and not os.path.isabs(owners.house.calendar):
        raise TermsTrouble("calendar: write the whole path of the file, from / on")
