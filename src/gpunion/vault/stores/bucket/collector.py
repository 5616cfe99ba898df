"""Deletes copies of blocks that nobody needs, and nothing else. Any number may be at it at the same time.

Needed is what a job's ledger keeps (sealed checkpoints, those that are read, those an upload builds on), what
a living session has put or claimed, and what is young. Who is not is doomed: published first, so that nobody
begins to rely on it; then everything is looked at once more, and what somebody had relied on in between is
spared. The rest can never be needed again, since its keys are not used twice: it does not matter how late it
is deleted. When a collector dies in the middle, another finishes its list once its session has ended.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field

from gpunion.vault.manifest import BadManifest, Garbage
from gpunion.vault.stores.bucket import ledger as ledgers
from gpunion.vault.stores.bucket.jobs import Jobs
from gpunion.vault.stores.bucket.layout import (
    CLAIMS,
    DOOMED,
    JOBS,
    SUSPECTS,
    Copy,
    blocks_of,
    is_block,
    manifest_key,
)
from gpunion.vault.stores.bucket.objects import Listed, Objects
from gpunion.vault.stores.bucket.reliance import read_list, read_lists
from gpunion.vault.stores.bucket.session import UploadSession, UploadSessionEnded, living


@dataclass
class _Needs:
    copies: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)

    def keep(self, listed: Listed) -> bool:
        """A block or a manifest: both end in who put them."""
        writer = Copy(listed.key).session
        return writer in self.sessions or listed.key in self.copies or listed.key in self.manifests


def collect(objects: Objects, grace_s: float) -> Garbage:
    """An unreadable manifest stops it: what that one needs is not known. May be cut anywhere."""
    now_s = objects.now_s()
    stored = [listed for listed in (*objects.list(blocks_of(None)), *objects.list(JOBS)) if _is_ours(listed)]
    needs = _needs(objects, now_s)
    doomed = [listed for listed in stored if not needs.keep(listed) and _is_old(listed, now_s, grace_s)]
    if doomed:
        doomed = _delete(objects, doomed, now_s)
    _finish_for_the_dead(objects, now_s)
    _tidy(objects, needs, now_s)
    blocks = [listed for listed in doomed if is_block(listed.key)]
    return Garbage(blocks=len(blocks), stored_bytes=sum(listed.size_bytes for listed in blocks))


def _delete(objects: Objects, doomed: list[Listed], now_s: float) -> list[Listed]:
    """Those that were really deleted. Nobody takes our list over before our session has been ended."""
    session = UploadSession()
    session.begin(objects)
    objects.put(f"{DOOMED}{session.id}", json.dumps([listed.key for listed in doomed]).encode())
    needs = _needs(objects, now_s)
    try:
        session.prove(objects)
    except UploadSessionEnded:
        return []  # somebody else goes on with the list
    left = [listed for listed in doomed if not needs.keep(listed)]
    objects.delete([listed.key for listed in left])
    objects.delete([f"{DOOMED}{session.id}"])
    session.finish(objects)
    return left


def _finish_for_the_dead(objects: Objects, now_s: float) -> None:
    """Lists that collectors have left who died in the middle."""
    lists = [listed.key for listed in objects.list(DOOMED)]
    needs = _needs(objects, now_s) if lists else _Needs()
    for key in lists:
        if key.removeprefix(DOOMED) in needs.sessions:
            continue
        with suppress(BadManifest):  # what it doomed is found again by who collects next
            left = read_list(objects, key)
            objects.delete([name for name in left if not needs.keep(Listed(name, 0, 0.0))])
        objects.delete([key])


def _is_ours(listed: Listed) -> bool:
    return is_block(listed.key) or "/manifests/" in listed.key


def _is_old(listed: Listed, now_s: float, grace_s: float) -> bool:
    """Without a grace the clock is not asked: it is a second or so off."""
    return grace_s <= 0 or listed.modified_s < now_s - grace_s


def _needs(objects: Objects, now_s: float) -> _Needs:
    """Claims before ledgers: what an upload relied on is in one of them at any moment."""
    jobs = Jobs(objects)
    needs = _Needs(sessions=living(objects, now_s))
    for session in needs.sessions:
        needs.copies |= read_lists(objects, f"{CLAIMS}{session}/")
    for job_id in jobs.all():
        ledger = jobs.change(job_id, lambda ledger: ledgers.current(ledger, now_s))
        for name in ledger.kept():
            record = jobs.record(job_id, name)
            needs.copies |= {copy.key for copy in record.copies} if record is not None else set()
        needs.manifests |= {manifest_key(job_id, name) for name in (*ledger.kept(), *ledger.damaged)}
    return needs


def _tidy(objects: Objects, needs: _Needs, now_s: float) -> None:
    """Claims of the dead, and notes about copies that are gone and that no checkpoint names."""
    claims = [listed.key for listed in objects.list(CLAIMS)]
    notes = [listed.key for listed in objects.list(SUSPECTS)]
    alive = living(objects, now_s) if claims else set()  # later: a session begins before its claims
    dead = [key for key in claims if key.split("/")[1] not in alive]
    about = {key: key.removeprefix(SUSPECTS) for key in notes}
    gone = [key for key, copy in about.items() if copy not in needs.copies and not objects.exists(copy)]
    objects.delete([*dead, *gone])
