"""What the agent must know of a run to go on with it after a restart, beside the engine's records."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.id_paths import path_of
from gpunion.domain.ids import JobId, RunId
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.system_tier import Tier
from gpunion.files import read_json, write_json
from gpunion.ports.runtime import GuestPaths
from gpunion.vault.manifest import JobKey

_PATHS = ("root", "checkpoint_dir", "control_dir", "output_dir", "scratch_dir", "log_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    run_id: RunId
    job_id: JobId
    epoch: int
    gpu_indices: tuple[int, ...]
    since_unix_s: float  # for people: when it came to this machine
    paths: GuestPaths
    tier: Tier = Tier.APP
    packages: str = ""  # the key of those installed for it
    vault_key: str = field(default="", repr=False)  # in hex; "": what it saves is not encrypted
    places: tuple[str, ...] = ()  # where its checkpoints lie; none: the campus's own vault
    in_gang: bool = False
    run_key: str = field(default="", repr=False)  # as in its order: others fetch its blocks with passes of it
    session: bool = False  # somebody works in it
    in_windows: bool = False
    counts_seconds: bool = False  # it is saved from outside: seconds of work are its steps

    @property
    def key(self) -> JobKey | None:
        return job_key(self.job_id, self.vault_key)


def job_key(job_id: JobId, vault_key: str) -> JobKey | None:
    return JobKey(job_id=job_id, secret=bytes.fromhex(vault_key)) if vault_key else None


class RunNotes:
    """One small file a run, for this user's eyes only, since keys are in it.

    Written before the guest starts, torn out when the guest is removed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[RunId, RunNote] = {}

    def open(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._directory.glob("*.json")):
            note = note_of(read_json(os.fspath(path)))
            if note is not None:
                self._known[note.run_id] = note

    def write(self, order: StartRun, paths: GuestPaths, packages: str = "") -> RunNote:
        note = RunNote(
            run_id=order.run_id,
            job_id=order.job_id,
            epoch=order.epoch,
            gpu_indices=order.grant.gpu_indices,
            since_unix_s=time.time(),
            paths=paths,
            tier=order.tier,
            packages=packages,
            vault_key=order.vault_key,
            places=order.places,
            in_gang=order.seat is not None,
            run_key=order.run_key,
            session=order.session is not None,
            in_windows=order.subjob is not None,
            counts_seconds=bool(order.wrapper) or order.tier is Tier.SYSTEM,
        )
        write_json(
            os.fspath(path_of(self._directory, note.run_id, ending=".json")), record_of(note), private=True
        )
        self._known[note.run_id] = note
        return note

    def get(self, run_id: RunId) -> RunNote | None:
        return self._known.get(run_id)

    def all(self) -> tuple[RunNote, ...]:
        return tuple(self._known.values())

    def forget(self, run_id: RunId) -> None:
        self._known.pop(run_id, None)
        path_of(self._directory, run_id, ending=".json").unlink(missing_ok=True)


def record_of(note: RunNote) -> dict[str, object]:
    return {
        "run_id": note.run_id,
        "job_id": note.job_id,
        "epoch": note.epoch,
        "gpu_indices": list(note.gpu_indices),
        "since_unix_s": note.since_unix_s,
        "tier": note.tier,
        "packages": note.packages,
        "vault_key": note.vault_key,
        "places": list(note.places),
        "in_gang": note.in_gang,
        "run_key": note.run_key,
        "session": note.session,
        "in_windows": note.in_windows,
        "counts_seconds": note.counts_seconds,
        **{name: os.fspath(getattr(note.paths, name)) for name in _PATHS},
    }


def note_of(record: dict[str, object] | None) -> RunNote | None:
    """None for a file that is not ours or damaged: its guest, if any, is then a stranger and ended."""
    if record is None:
        return None
    gpus, places = record.get("gpu_indices"), record.get("places")
    try:
        job_key(JobId(""), str(record.get("vault_key", "")))  # ValueError: not one
        return RunNote(
            run_id=RunId(str(record["run_id"])),
            job_id=JobId(str(record["job_id"])),
            epoch=int(str(record["epoch"])),
            gpu_indices=tuple(int(str(gpu)) for gpu in gpus) if isinstance(gpus, list) else (),
            since_unix_s=float(str(record["since_unix_s"])),
            packages=str(record.get("packages", "")),
            vault_key=str(record.get("vault_key", "")),
            places=tuple(map(str, places)) if isinstance(places, list) else (),
            paths=GuestPaths(**{name: Path(str(record[name])) for name in _PATHS}),
            tier=Tier(str(record.get("tier", Tier.APP))),
            in_gang=record.get("in_gang") is True,
            run_key=str(record.get("run_key", "")),
            session=record.get("session") is True,
            in_windows=record.get("in_windows") is True,
            counts_seconds=record.get("counts_seconds") is True,
        )
    except (KeyError, ValueError):
        return None
