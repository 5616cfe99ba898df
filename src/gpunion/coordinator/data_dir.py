"""The coordinator's data folder opens to its user alone: people's code and the campus's keys are in it."""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from gpunion.coordinator.settings import VAULT_DIR

DATABASE_FILE = "gpunion.db"
TREES_DIR, LOGS_DIR, IMAGES_DIR, PLACES_DIR = "trees", "logs", "images", "places"
USAGE_FILE = "usage.db"  # sums for people; what counts is in the database
ADMIN_FILE = "admin.token"
METRICS_FILE = "metrics.token"
ADDRESS_FILE = "address"

FOLDERS = (TREES_DIR, LOGS_DIR, IMAGES_DIR, PLACES_DIR)
# With what is written beside them. A disk of its own has the last.
FILES = (DATABASE_FILE, USAGE_FILE, ADMIN_FILE, METRICS_FILE, ADDRESS_FILE, "lost+found")
OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

log = structlog.get_logger("gpunion.coordinator")


def shut_to_others(folder: Path) -> None:
    """Somebody else may have made it, or put it back from a copy."""
    (folder / TREES_DIR).mkdir(mode=0o700, exist_ok=True)
    for inner in filter(Path.is_dir, map(folder.joinpath, FOLDERS)):
        _shut(inner)
    if not folder.stat().st_mode & OTHERS:
        return
    shared = _shared_with_others(folder)
    trouble = f"others may need {shared}, which is in it" if shared else _shut(folder)
    if trouble:
        log.warning("data_folder_open", folder=str(folder), trouble=trouble, next_step=f"chmod 700 {folder}")
    else:
        log.info("data_folder_shut", folder=str(folder), message="others could look into it")


def _shared_with_others(folder: Path) -> str:
    """Nobody is shut out of /srv because it was named, nor of a vault that others write."""
    for one in sorted(folder.iterdir()):
        if one.name == VAULT_DIR and one.stat().st_mode & OTHERS_WRITE:
            return one.name
        if one.name not in (*FOLDERS, VAULT_DIR) and not one.name.startswith(FILES):
            return one.name
    return ""


def _shut(path: Path) -> str:
    """Why it could not be; empty where it is."""
    try:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OTHERS)
    except OSError as error:
        return error.strerror or str(error)
    return ""
