"""Checks of the way to the coordinator and to the vault."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gpunion.agent.settings import THROUGH_COORDINATOR
from gpunion.cli.campus import Campus, Json
from gpunion.cli.checks.finding import Finding, missing, ok, warning
from gpunion.cli.connection import trouble_of
from gpunion.cli.exits import Trouble
from gpunion.cli.quantities import shown_duration
from gpunion.sdk.errors import ApiProblem, ClientError
from gpunion.vault.locations import MARK_FILE

# Only an owner's hours and calendar go by the time of day; but people compare what they read.
CLOCKS_APART_MAX_S = 5.0


def check_coordinator(open_campus: Callable[[], Campus]) -> tuple[list[Finding], Json | None]:
    """Findings, and what the campus says of itself when it can be asked."""
    try:
        campus = open_campus()
    except Trouble as trouble:
        return [
            missing("coordinator", f"{trouble.what}: {trouble.why}".rstrip(": "), trouble.next_step)
        ], None
    try:
        about = campus.campus()
    except ApiProblem as problem:
        said = trouble_of(problem)
        return [
            ok("coordinator", f"{campus.url} answers"),
            missing("token", said.what, said.next_step),
        ], None
    except ClientError as error:
        said = trouble_of(error)
        return [missing("coordinator", f"{said.what}: {said.why}", start_hint(campus.url))], None
    return [
        ok("coordinator", f"{campus.url} answers, version {about['version']}"),
        ok("token", "it is accepted"),
        check_clock(about["now"]),
    ], about


def start_hint(url: str) -> str:
    if "//127." in url or "//localhost" in url or "//[::1]" in url:
        return "gpunion coordinator, to start it; or gpunion login URL --token TOKEN, if it is elsewhere"
    return f"curl -sv {url}/api/v1/campus shows what is in the way; gpunion login changes the address"


def check_clock(now_there: str, now_here: datetime | None = None) -> Finding:
    here = now_here or datetime.now(UTC)
    apart_s = (here - datetime.fromisoformat(now_there)).total_seconds()
    if abs(apart_s) <= CLOCKS_APART_MAX_S:
        return ok("clock", f"agrees with the coordinator's within {shown_duration(CLOCKS_APART_MAX_S)}")
    which = "ahead of" if apart_s > 0 else "behind"
    found = f"{shown_duration(abs(apart_s))} {which} the coordinator's"
    return warning("clock", found, "sudo timedatectl set-ntp true, on both machines")


def check_vault(place: Path, *, needed: bool, mark: str = "") -> Finding:
    """Written to and read back: a mount that is there may still be read-only, stale or full.

    `mark` is the one that the campus's vault is known by, where that was told."""
    trouble = _try_writing(place)
    if not trouble and not _bears(place, mark):
        trouble = "it is not the campus's vault, whose mark would be there: no job can be saved here"
    if not trouble:
        return ok("vault", f"{place} can be written and read")
    mend, found = mend_of(trouble, place), f"{place}: {trouble}"
    return missing("vault", found, mend) if needed else warning("vault", found, mend)


def mend_of(trouble: str, place: Path) -> str:
    if trouble in (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)):
        return f"make room on that disk; gpunion vault ls {place} shows what lies there"
    mend = f"mount the campus's vault there, or give yourself access: ls -ld {place}"
    if trouble == os.strerror(errno.EROFS):
        mend = f"mount it writable: findmnt -T {place} shows from where it comes"
    return (
        f"{mend}; or have saves go through the coordinator: "
        f'vault = "{THROUGH_COORDINATOR}" in agent.toml, then restart the agent'
    )


def _bears(place: Path, mark: str) -> bool:
    try:
        found = (place / MARK_FILE).read_text().strip()
    except OSError:
        return False
    return found == mark if mark else bool(found)


def _try_writing(place: Path) -> str:
    if not place.is_dir():
        return "there is no such directory"
    word = os.urandom(16)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".gpunion-doctor-") as file:
            file.write(word)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            return "" if file.read() == word else "what is read is not what was written"
    except OSError as error:
        return error.strerror or str(error)
