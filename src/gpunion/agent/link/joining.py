"""Joining a campus: a one-time token becomes a name, a credential and a settings file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpunion.agent.settings import (
    CREDENTIAL_FILE,
    SETTINGS_FILE,
    THROUGH_COORDINATOR,
    SettingsTrouble,
    checked_url,
    settings_of,
)
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import Gpu
from gpunion.files import write_whole
from gpunion.ports.coordinator_link import Application, Enrolment, Registrar

# Written before the token is spent and held until the files are there: a token works once, and the name it
# gives stays taken. Far more than the files have, for what an agent writes when it first starts.
ROOM_BYTES = 4 * 1024**2
ROOM_PREFIX = ".room."


class JoinTrouble(Exception):
    """Why this machine did not join and what to do next, in words for the owner."""


class AlreadyJoined(JoinTrouble):
    """Nothing was asked of anybody: the machine is part of a campus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    url: str
    join_token: str
    name: str
    lab: str
    state_dir: Path
    building: str = ""
    gpus: tuple[Gpu, ...] = ()
    vault: str | None = None  # None: where the campus keeps them
    cpus: float | None = None
    memory_bytes: int | None = None
    uplink_bps: float | None = None
    terms: Terms = field(default_factory=Terms)
    runtime: str = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    node_id: str
    settings_file: Path
    next_step: str


async def join(
    request: JoinRequest,
    registrar: Registrar,
    shares: Callable[[Path, str], bool] = lambda folder, mark: True,
) -> Joined:
    """`shares` says whether a folder of this machine is the one that bears a mark."""
    settings_file = request.state_dir / SETTINGS_FILE
    if settings_file.exists():
        raise AlreadyJoined(
            f"This machine has already joined: {settings_file} is there.\n"
            "Next: gpunion agent, to start it; gpunion leave, to leave that campus; or another --state-dir."
        )
    try:
        checked_url(request.url)
        # Before the token is spent: settings that the agent would refuse are refused now.
        settings_of(_table(request, "node", request.vault or "vault"), request.state_dir, {})
    except SettingsTrouble as trouble:
        raise JoinTrouble(str(trouble)) from trouble
    with _room_in(request.state_dir):
        given = await registrar.enrol(
            Application(join_token=request.join_token, name=request.name, lab=request.lab)
        )
    vault = request.vault or _vault_for(given, shares)
    try:
        _keep(request.state_dir, given.credential, to_toml(_table(request, given.node_id, vault)))
    except OSError as error:
        raise _in_vain(request, given, error) from error
    next_step = "gpunion agent, to start lending; gpunion status, to see who is here"
    if _is_another(request, given, shares):
        next_step = (
            f"{vault} of this machine is not the campus's vault: its mark is not there, and no job starts "
            "here as it is. Mount the vault there, or have saves go through the coordinator with "
            f'vault = "{THROUGH_COORDINATOR}" in {settings_file}; then gpunion agent'
        )
    if vault is None:
        next_step = (
            f'write vault = "DIRECTORY" (shared by all nodes) into {settings_file}, then gpunion agent'
        )
    return Joined(node_id=given.node_id, settings_file=settings_file, next_step=next_step)


def _vault_for(given: Enrolment, shares: Callable[[Path, str], bool]) -> str | None:
    """The folder where this machine sees it too; else through the coordinator, who does."""
    if given.vault is None or not given.vault_mark:
        return given.vault
    return given.vault if shares(Path(given.vault), given.vault_mark) else THROUGH_COORDINATOR


def _is_another(request: JoinRequest, given: Enrolment, shares: Callable[[Path, str], bool]) -> bool:
    """The folder that the owner named: told before its agent has to refuse every job."""
    if request.vault in (None, THROUGH_COORDINATOR) or not given.vault_mark:
        return False
    return not shares(Path(request.vault), given.vault_mark)


def _table(request: JoinRequest, node_id: str, vault: str | None) -> dict[str, Any]:
    terms, usual = request.terms, Terms()
    told = {
        "coordinator": request.url.rstrip("/"),
        "node_id": node_id,
        "lab": request.lab,
        "building": request.building or None,
        "vault": vault,
        "credential_file": CREDENTIAL_FILE,
        "runtime": request.runtime,
        "cpus": request.cpus,
        "memory": request.memory_bytes,
        "uplink_bps": request.uplink_bps,
        "gpu": [{"model": gpu.model, "memory": gpu.memory_bytes, "speed": gpu.speed} for gpu in request.gpus],
        "terms": _given(
            {
                "notice_s": terms.notice_s,
                "allow_unsandboxed": terms.allow_unsandboxed,
                "allow_labs": list(terms.allow_labs) or None,
                "deny_labs": list(terms.deny_labs) or None,
                "max_guests": None if terms.max_guests == usual.max_guests else terms.max_guests,
                "memory": terms.memory_bytes,
                "autonomy_s": terms.autonomy_s or None,
                "egress": list(terms.egress) or None,
            }
        ),
    }
    return _given(told)


def to_toml(table: dict[str, Any]) -> str:
    """The few shapes our settings have: values, one table, one list of tables."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict) and key != "gpu"}
    lines = [f"{key} = {_value(value)}" for key, value in plain.items()]
    for gpu in table.get("gpu", ()):
        lines += ["", "[[gpu]]", *(f"{key} = {_value(value)}" for key, value in gpu.items())]
    if "terms" in table:
        lines += ["", "[terms]", *(f"{key} = {_value(value)}" for key, value in table["terms"].items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    # JSON's strings, numbers, truths and flat lists are TOML's as well, except for one control character.
    return json.dumps(value).replace("\x7f", "\\u007f")


def _given(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


@contextlib.contextmanager
def _room_in(state_dir: Path) -> Iterator[None]:
    """Tried, not asked: quotas, read-only mounts and file servers tell only who writes."""
    room, made = state_dir / f"{ROOM_PREFIX}{os.getpid()}", not state_dir.exists()
    try:
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _clear_rooms(state_dir)
            with open(room, "wb") as file:
                file.write(bytes(ROOM_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JoinTrouble(
                f"{state_dir} does not take the {ROOM_BYTES >> 20} MiB that an agent begins with: "
                f"{error.strerror}. Nothing was asked of the campus: your token is as good as before.\n"
                "Next: make room or give yourself access there, or choose another --state-dir; "
                "then the same command again"
            ) from error
        yield
    except BaseException:
        _take_away(room, state_dir if made else None)
        raise
    _take_away(room, None)


def _take_away(room: Path, folder: Path | None) -> None:
    with contextlib.suppress(OSError):
        room.unlink()
    if folder is not None:
        with contextlib.suppress(OSError):  # it is not empty where somebody else has joined meanwhile
            folder.rmdir()


def _clear_rooms(state_dir: Path) -> None:
    """Of those who were killed while they joined. Who joins at the same time may lose its own: all it has
    learned by then is that there was room."""
    for left in state_dir.glob(f"{ROOM_PREFIX}*"):
        with contextlib.suppress(OSError):
            left.unlink()


def _keep(state_dir: Path, secret: str, settings: str) -> None:
    """The settings last: they are what makes the machine one that has joined."""
    credential = state_dir / CREDENTIAL_FILE
    try:
        write_whole(credential, f"{secret}\n")
        write_whole(state_dir / SETTINGS_FILE, settings)
    except OSError:
        with contextlib.suppress(OSError):
            credential.unlink()  # of no use to anybody without the settings
        raise


def _in_vain(request: JoinRequest, given: Enrolment, error: OSError) -> JoinTrouble:
    return JoinTrouble(
        f"The campus let this machine in as {given.node_id}, but {request.state_dir} did not take what it "
        f"gave: {error.strerror}. The token is spent, and so is the name: no two machines are ever called "
        "the same.\n"
        "Next: make room there, ask the campus operator for a new token (`gpunion coordinator token`), "
        "and join with it; the campus adds a number to the name, or choose another --name"
    )
