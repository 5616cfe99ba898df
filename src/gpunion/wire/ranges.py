"""Which range each number, text and list has that crosses a boundary.

A table by the names of fields: what is special to one type first, then the name, then the unit it ends with.
A field that none of them knows is an error as soon as its type is used, so no field goes without a range.
What only our own store holds has wide ranges: it was made of what arrived within the narrow ones.
"""

from __future__ import annotations

from typing import Any

from gpunion import limits
from gpunion.domain.cuda_requirement import REQUIREMENT_MAX_CHARS
from gpunion.domain.environment import LIST_LIMIT_BYTES
from gpunion.domain.jobs.gang import GANG_MOST
from gpunion.domain.jobs.session import SSH_KEYS_MAX
from gpunion.limits import LOCATION_NAME_PATTERN, MOMENT_MAX_S, NUMBER_MAX, SIZE_MAX_BYTES
from gpunion.wire.rules import Items, Line, Matching, Number, Rule, Said, Text

SECONDS = Number(0, MOMENT_MAX_S)
MOMENT = Number(-MOMENT_MAX_S, MOMENT_MAX_S)
SIZE = Number(0, SIZE_MAX_BYTES)
RATE = Number(0, limits.RATE_MAX_BPS)
STEP = Number(0, limits.STEP_MAX)
SHARE = Number(0, 1)
COUNT = Number(0, NUMBER_MAX)
ID = Matching(limits.ID_PATTERN, "up to 128 letters, digits, '.', '_' and '-', no '.' or '-' first")
NAME = Line(limits.NAME_MAX_CHARS)
SAID = Said()
HEX = Matching(r"[0-9a-f]{0,128}", "up to 128 hexadecimal digits")
# A GPU's version, or a range of them that a job asks for; empty where nothing is known or asked.
VERSION = Matching(r"[0-9.<>=!,]{0,64}", "digits, points and the signs of a comparison, at most 64")
ARGUMENT = Text(limits.ARGUMENTS_MAX_CHARS)

# What only the store holds: sums, and moments that were translated from another machine's clock.
STORED_NUMBER = Number(-1e30, 1e30)
STORED_INTEGER = Number(-(2**63), 2**63 - 1)
STORED_TEXT = Text(1024 * 1024)
STORED_ITEMS = Items(1_000_000)

UNITS: dict[str, Rule] = {"_s": SECONDS, "_bytes": SIZE, "_bps": RATE}

FIELDS: dict[str, Rule] = {
    "at_s": MOMENT,
    "by_s": MOMENT,
    "deadline_s": MOMENT,
    "heartbeat_sent_s": MOMENT,
    "hello_sent_s": MOMENT,
    "sent_s": MOMENT,
    "until_s": MOMENT,
    "epoch": Number(1, limits.EPOCH_MAX),
    "last_step": STEP,
    "step": STEP,
    "resumed_step": STEP,
    "restore_step": STEP,
    "at_step": STEP,
    "progress": SHARE,
    "done": SHARE,
    "drift": SHARE,
    "ack": COUNT,
    "seq": COUNT,
    "term": COUNT,
    "orders_before": COUNT,
    "version": Number(0, 1_000_000),
    "exit_code": Number(-limits.EXIT_CODE_MAX, limits.EXIT_CODE_MAX),
    "cpus": Number(0, limits.CPUS_MAX),
    "speed": Number(limits.SPEED_MIN, limits.SPEED_MAX),
    "index": Number(0, limits.GPU_INDEX_MAX),
    "utilisation": SHARE,
    "gpu_utilisation": SHARE,
    "temperature_c": Number(-limits.TEMPERATURE_MAX_C, limits.TEMPERATURE_MAX_C),
    "power_w": Number(0, limits.POWER_MAX_W),
    "max_guests": Number(0, limits.GUESTS_MAX),
    "gpus": Number(0, limits.GPU_INDEX_MAX),
    "gpu_indices": Number(0, limits.GPU_INDEX_MAX),
    # names
    "incarnation": NAME,
    "lab": NAME,
    "name": NAME,
    "user": NAME,
    "building": NAME,
    "model": NAME,
    "kind": NAME,
    "compute_capability": VERSION,
    "cuda": VERSION,
    "driver": NAME,
    "card": NAME,
    "profile": NAME,
    "runtime": NAME,
    "stage": NAME,
    "level": NAME,
    "restored": NAME,
    "kernels": COUNT,
    "streams": COUNT,
    "figures": NAME,
    "data_address": Line(limits.ADDRESS_MAX_CHARS),
    "address": Line(limits.ADDRESS_MAX_CHARS),
    "endpoint": Line(limits.ADDRESS_MAX_CHARS),
    "certificate": Text(limits.CERTIFICATE_MAX_CHARS),
    "digest": Matching(r"[0-9a-f]{0,128}", "hexadecimal digits"),
    "uuid": NAME,
    "vault_key": HEX,
    "run_key": HEX,
    "token": HEX,
    "bundle": ID,
    "lockfile": Line(1024),
    "requirements": Text(LIST_LIMIT_BYTES),
    "ssh_keys": Line(limits.SSH_KEY_MAX_CHARS),
    "command": ARGUMENT,
    "wrapper": ARGUMENT,
    "entrypoint": ARGUMENT,
    "environment": ARGUMENT,
    "places": Matching(LOCATION_NAME_PATTERN, "small letters, digits, - and _, at most 32"),
    "places_away": Matching(LOCATION_NAME_PATTERN, "small letters, digits, - and _, at most 32"),
    # what is said to people
    "because": SAID,
    "detail": SAID,
    "elsewhere": SAID,
    "kept": SAID,
    "passed_over": SAID,
    "said": SAID,
    "tier_why": SAID,
    "trouble": SAID,
    "unreadable": SAID,
    "vault_trouble": SAID,
    "what": SAID,
    "why": SAID,
    "no_ssh": SAID,
    "whole_why_not": SAID,
    "why_not": SAID,
}

PARTICULAR: dict[str, Rule] = {
    "CheckpointFailed.places": SAID,
    "Image.name": Line(300),
    "Archive.requires": Line(REQUIREMENT_MAX_CHARS),
    "Seen.steps": STEP,
    "Subjob.steps": STEP,
    "Subjob.number": COUNT,
    "Subjob.safe_every": Number(1, limits.STEP_MAX),
    "Seat.size": Number(1, GANG_MOST),
    "Seat.rank": Number(0, GANG_MOST - 1),
    "BusyGpus.watched_gpu_s": Number(0, MOMENT_MAX_S * limits.GPUS_MAX),
    "BusyGpus.own_gpu_s": Number(0, MOMENT_MAX_S * limits.GPUS_MAX),
    "BusyGpus.guest_gpu_s": Number(0, MOMENT_MAX_S * limits.GPUS_MAX),
    "Timing.heartbeat_s": Number(limits.BEAT_MIN_S, MOMENT_MAX_S),
    "Timing.resend_s": Number(limits.BEAT_MIN_S, MOMENT_MAX_S),
    "Timing.replan_s": Number(limits.BEAT_MIN_S, MOMENT_MAX_S),
}

WORDS = Line(limits.NAME_MAX_CHARS)
_OF_NAMES = Items(limits.WORDS_MAX, most_chars=limits.WORDS_MAX_CHARS)
WORD_LISTS = (
    *(f"{verb}_{whom}" for verb in ("allow", "deny", "prefer") for whom in ("labs", "people")),
    "images",
    "egress",
)
FIELDS |= dict.fromkeys(WORD_LISTS, WORDS)

LISTS: dict[str, Items] = {
    **dict.fromkeys(WORD_LISTS, _OF_NAMES),
    "places": Items(limits.GPUS_MAX),
    "places_away": Items(limits.GPUS_MAX),
    "command": Items(limits.ARGUMENTS_MAX, most_chars=limits.ARGUMENTS_MAX_CHARS),
    "wrapper": Items(limits.ARGUMENTS_MAX, most_chars=limits.ARGUMENTS_MAX_CHARS),
    "entrypoint": Items(limits.ARGUMENTS_MAX, most_chars=limits.ARGUMENTS_MAX_CHARS),
    "environment": Items(limits.ARGUMENTS_MAX),
    "ssh_keys": Items(SSH_KEYS_MAX),
    "guests": Items(limits.GUESTS_MAX),
    "parking": Items(limits.GUESTS_MAX),
    "progress": Items(limits.GUESTS_MAX),
    "preparing": Items(limits.GUESTS_MAX),
    "saves": Items(limits.GUESTS_MAX),
    "finishing": Items(limits.GUESTS_MAX),
    "installed": Items(limits.WORDS_MAX),
    "sessions": Items(limits.GUESTS_MAX),
    "missing": Items(limits.MISSING_MAX),
    "unsaved": Items(limits.MISSING_MAX),
    "spoiled": Items(limits.GUESTS_MAX),
    "signs": Items(16),
    "gpus": Items(limits.GPUS_MAX, once=True),
    "gpu_indices": Items(limits.GPUS_MAX, once=True),
    "GpuReadings.gpus": Items(limits.GPUS_MAX, once_by="index"),
    "Capacity.gpus": Items(limits.GPUS_MAX, once_by="index"),
}
_WIDE: dict[type, Rule] = {float: STORED_NUMBER, int: STORED_INTEGER, str: STORED_TEXT}


class NoRange(TypeError):
    """A field was added and nobody said what range it has."""


def of_field(owner: str, field: str, kind: type, *, stored: bool) -> Rule:
    """For its numbers or texts, in a list or by themselves."""
    if stored:
        return _WIDE[kind]
    for found in (PARTICULAR.get(f"{owner}.{field}"), FIELDS.get(field)):
        if found is not None:
            return _fitting(found, owner, field, kind)
    for unit, rule in UNITS.items():
        if field.endswith(unit) and kind is not str:
            return rule
    raise NoRange(f"{owner}.{field} has no range: give it one in wire/ranges.py")


def of_list(owner: str, field: str, *, stored: bool) -> Items:
    if stored:
        return STORED_ITEMS
    found = LISTS.get(f"{owner}.{field}") or LISTS.get(field)
    if found is None:
        raise NoRange(f"the list {owner}.{field} has no bound: give it one in wire/ranges.py")
    return found


def _fitting(rule: Rule, owner: str, field: str, kind: Any) -> Rule:
    if isinstance(rule, Number) is (kind is str):
        raise NoRange(f"{owner}.{field} has the range of another kind: give it one in wire/ranges.py")
    return rule
