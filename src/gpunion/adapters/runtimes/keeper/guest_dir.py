"""A guest's directory on the host: where it is, how it is made, and what its records say."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from gpunion.adapters.runtimes.keeper.names import (
    CHECKPOINT_DIR,
    CONTROL_DIR,
    GUEST_FILE,
    HOME_DIR,
    LOG_FILE,
    OUTPUT_DIR,
    SCRATCH_DIR,
    SOCKETS_DIR,
    TEMPORARY_DIR,
    WORK_DIR,
)
from gpunion.files import read_json, write_json
from gpunion.limits import ID_PATTERN
from gpunion.owner_kill.guest import GUESTS_DIR
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault

# Where gpunion itself lies: keepers run it, and guests may read it.
PACKAGE_DIR = Path(__file__).resolve().parents[3]

# A guest's code, not its data: data belongs in a storage place.
WORK_SOURCE_MAX_BYTES = 1024**3

# So many names of any length make a path that the system takes.
LEVELS = 8


def guest_root(state_dir: Path, run_id: str) -> Path:
    if not ID_PATTERN.fullmatch(run_id):
        raise RuntimeFault(
            f"{run_id!r} cannot name a run: letters, digits, '.', '_' and '-' only", temporary=False
        )
    return state_dir / GUESTS_DIR / run_id


def guest_paths(root: Path) -> GuestPaths:
    return GuestPaths(
        root=root,
        checkpoint_dir=root / CHECKPOINT_DIR,
        control_dir=root / CONTROL_DIR,
        output_dir=root / OUTPUT_DIR,
        scratch_dir=root / SCRATCH_DIR,
        log_file=root / LOG_FILE,
    )


def make_guest(root: Path, spec: GuestSpec) -> GuestPaths:
    """guest.json is written last: a directory without it was never finished and is made again."""
    paths = guest_paths(root)
    wanted = _record(spec)
    found = read_json(str(root / GUEST_FILE))
    if found == wanted:
        return paths
    if found is not None:
        raise RuntimeFault(f"another guest was already prepared as {spec.run_id}", temporary=False)
    try:
        for directory in (
            paths.checkpoint_dir,
            paths.control_dir,
            paths.output_dir,
            paths.scratch_dir / HOME_DIR,
            paths.scratch_dir / TEMPORARY_DIR,
            paths.scratch_dir / SOCKETS_DIR,
        ):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy_work(spec.work_source, paths.scratch_dir / WORK_DIR)
        write_json(str(root / GUEST_FILE), wanted)
    except (OSError, shutil.Error) as error:
        raise RuntimeFault(f"cannot prepare {spec.run_id}: {error}", temporary=True) from error
    return paths


def read_guest(root: Path) -> tuple[str, int] | None:
    """Job and epoch of a prepared guest; None when there is none."""
    record = read_json(str(root / GUEST_FILE))
    return None if record is None else (str(record["job_id"]), int(str(record["epoch"])))


def delete_tree(root: Path) -> None:
    """Delete what a guest left, also directories it made unreadable or nested without end. Links are removed,
    never followed."""
    try:
        shutil.rmtree(root, onerror=_open_and_retry)
    except RecursionError:
        _bring_up(root)
        shutil.rmtree(root, onerror=_open_and_retry)


def _bring_up(root: Path) -> None:
    """What is nested deeply is moved to the top, where it can be walked through."""
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        os.chmod(folder, stat.S_IRWXU)
        with os.scandir(folder) as entries:
            inner = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        for path in inner:
            if depth < LEVELS:
                waiting.append((path, depth + 1))
            else:
                os.chmod(path, stat.S_IRWXU)  # else it may not be moved
                top = root / secrets.token_hex(16)
                os.rename(path, top)
                waiting.append((top, 1))


def _record(spec: GuestSpec) -> dict[str, object]:
    # Through JSON, so that tuples compare equal to the lists that are read back.
    record = asdict(spec) | {"environment": dict(spec.environment)}
    return dict(json.loads(json.dumps(record)))


def _copy_work(source: str | None, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)  # of a preparation that was cut short
    if source is None:
        target.mkdir()
        return
    size_bytes = sum(
        os.lstat(os.path.join(directory, name)).st_size
        for directory, _, names in os.walk(source)
        for name in names
    )
    if size_bytes > WORK_SOURCE_MAX_BYTES:
        limit = WORK_SOURCE_MAX_BYTES
        raise RuntimeFault(f"the job's code has {size_bytes} bytes, more than {limit}", temporary=False)
    if not os.path.isdir(source):
        raise RuntimeFault(f"the job's code is not there: {source}", temporary=False)
    shutil.copytree(source, target, symlinks=True)


def _open_and_retry(function: Callable[..., object], path: str, _: object) -> None:
    parent = os.path.dirname(path)
    for directory in (parent, path):
        if os.path.isdir(directory) and not os.path.islink(directory):
            os.chmod(directory, stat.S_IRWXU)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
