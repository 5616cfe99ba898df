"""How far numbers, texts and lists that machines tell each other may go, each with its reason.

`wire/ranges.py` says which field has which.
What arrives lies within them, so that nothing that is reckoned with it overflows, divides by nothing or fills
a disk. They are far beyond what any honest machine says.
"""

from __future__ import annotations

import math
import re

# Relative to the reference card. Whatever divides by the least of them stays a number, and no card is a
# hundred times the reference.
SPEED_MIN, SPEED_MAX = 1e-6, 100.0
# A moment or a duration: year 2920. Sums and differences of two of them are dates that can be written.
# A moment may lie before its sender's clock began to count.
MOMENT_MAX_S = 3e10
# Exact as a float and in JavaScript: nine petabytes.
SIZE_MAX_BYTES = 2**53 - 1
# A petabit a second; no wire of a campus comes near.
RATE_MAX_BPS = 1e15
# File names of saves have fifteen digits for it.
STEP_MAX = 10**15 - 1
# What divides by how long a step takes stays a number; a step that is said to take less was never timed.
STEP_MIN_S = 1e-6
# A new epoch every second for thirty years.
EPOCH_MAX = 10**9
# Numbers of frames and terms: exact in JavaScript too.
NUMBER_MAX = 2**53 - 1
CPUS_MAX = 65_536.0
GPU_INDEX_MAX = 1023
# The largest machines have sixteen cards; cut into seven slices each that is 112.
GPUS_MAX = 256
# A card melts far below, and a rack of them draws less.
TEMPERATURE_MAX_C = 1000.0
POWER_MAX_W = 100_000.0
# Guests of one machine at a time, and what else is listed once for each.
GUESTS_MAX = 1024
# What a session lacks: nobody reads a longer list in a page, and a frame has room for some sessions' lists.
MISSING_MAX = 40
# Exit codes and signals are far below; this is what an `int` of a system call holds.
EXIT_CODE_MAX = 2**31 - 1
# A beat every millisecond is already of no use; none at all would be one without end.
BEAT_MIN_S = 0.001

# A place where checkpoints are kept; it names folders and parts of addresses.
LOCATION_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
NAME_MAX_CHARS = 160  # an account with the longest name of a user has 140
TEXT_MAX_CHARS = 500  # what a node or a guest says to people
ADDRESS_MAX_CHARS = 300
CERTIFICATE_MAX_CHARS = 16 * 1024
SSH_KEY_MAX_CHARS = 4096  # a public one of 16384 bits has some 2800
# Of one list of names in an owner's terms: seven of them fit a frame.
WORDS_MAX, WORDS_MAX_CHARS = 1000, 32 * 1024
# Of a job's command or environment; the coordinator takes a quarter of a megabyte of each.
ARGUMENTS_MAX, ARGUMENTS_MAX_CHARS = 4096, 600 * 1024

# What names a run, a job, a checkpoint or a node, and thereby files: no slash, and never dots alone.
ID_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

# What a terminal obeys, and what turns the order of letters round.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


class OutOfRange(ValueError):
    """The message says which field, and what it may be."""


def checked_id(name: str) -> str:
    """The same, where it can be part of a path."""
    if not ID_PATTERN.fullmatch(name):
        raise OutOfRange(
            f"{name[:64]!r} names nothing: up to 128 letters, digits, '.', '_' and '-', no '.' or '-' first"
        )
    return name


def finite(value: object) -> float | None:
    """What somebody wrote as a number, where it is one: JSON knows integers that no float can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def is_line(text: str) -> bool:
    """One line that a terminal shows as it is."""
    return _OBEYED.search(text) is None


def readable(said: str) -> str:
    """Somebody's words on one line, and nothing that a terminal would obey or that is no text at all."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in said).split())


def as_told(said: str) -> str:
    """What a node or a guest said, as it is kept and shown: readable, and no longer than anybody reads."""
    if len(said) <= TEXT_MAX_CHARS and said.isprintable():
        return said
    text = said[: 2 * TEXT_MAX_CHARS].encode(errors="replace").decode()
    return readable(text)[:TEXT_MAX_CHARS].rstrip()
