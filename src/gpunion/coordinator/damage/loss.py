"""What the operator is told when the database has lost something."""

from __future__ import annotations

from pathlib import Path

import structlog

from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.protocol.commit import SavedCampus
from gpunion.ports.database import StoreDamaged

# Of a start that is refused because of what was lost: it fails again until a person has decided.
EXIT_DAMAGED = 65
_RESTORE = 'put back the last backup as docs/operating.md says ("Backup and restore")'

log = structlog.get_logger("gpunion.coordinator")


def tell_of_loss(saved: SavedCampus) -> None:
    for what in saved.left_out:
        log.warning("database_damaged", lost=what)
    for record in saved.records:
        if isinstance(record, HeldJob) and not record.given_up:
            next_step = f"put back a backup, or give it up: gpunion stop {record.id}"
            log.error("job_held", job=record.id, name=record.name, trouble=record.why, next_step=next_step)


def how_to_mend(damaged: StoreDamaged, command: str, data_dir: Path) -> str:
    """Nothing was changed so far, however often it was tried."""
    flag, does = (
        "--begin-anew",
        "puts it aside and begins an empty campus, which all machines have to join again",
    )
    if damaged.readable:
        flag, does = "--accept-loss", "goes on with what can be read"
    return f"{_RESTORE}. Without a backup, {command} --data {data_dir} {flag} {does}"
