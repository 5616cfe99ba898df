"""Where things lie in a bucket.

    vault.json                               format
    blocks/ab/HASH/SESSION                   a copy of a block
    jobs/JOB/ledger.json                     see `ledger`
    jobs/JOB/manifests/RECORD                what a seal has published, once the ledger names it
    jobs/JOB/blocks/...                      of a job with a key: its blocks are its own
    sessions/SESSION                         see `session`
    claims/SESSION/...                       copies of others that an upload under way relies on
    doomed/...                               copies that a collector deletes: nobody may begin to rely on one
    suspects/...                             copies that were found damaged

A copy's key is never used a second time: what a collector deletes, however late, cannot be what somebody has
stored anew.
"""

from __future__ import annotations

from dataclasses import dataclass

VAULT_KEY = "vault.json"
JOBS = "jobs/"
CLAIMS = "claims/"
DOOMED = "doomed/"
SUSPECTS = "suspects/"
COLLECTED_KEY = "collected.json"


@dataclass(frozen=True, slots=True)
class Copy:
    """One stored copy of a block."""

    key: str

    @property
    def name(self) -> str:
        return self.key.split("/")[-2]

    @property
    def session(self) -> str:
        return self.key.split("/")[-1]


def blocks_of(owner: str | None) -> str:
    """Everybody's, or those of a job with a key."""
    return "blocks/" if owner is None else f"{JOBS}{owner}/blocks/"


def copies_of(owner: str | None, name: str) -> str:
    return f"{blocks_of(owner)}{name[:2]}/{name}/"


def copy_by(session: str, owner: str | None, name: str) -> Copy:
    return Copy(f"{copies_of(owner, name)}{session}")


def ledger_key(job_id: str) -> str:
    return f"{JOBS}{job_id}/ledger.json"


def manifest_key(job_id: str, record: str) -> str:
    return f"{JOBS}{job_id}/manifests/{record}"


def session_key(session: str) -> str:
    return f"sessions/{session}"


def suspect_key(copy: Copy) -> str:
    return SUSPECTS + copy.key


def is_block(key: str) -> bool:
    parts = key.split("/")
    return (parts[0] == "blocks" and len(parts) == 4) or (
        parts[0] == "jobs" and len(parts) == 6 and parts[2] == "blocks"
    )
