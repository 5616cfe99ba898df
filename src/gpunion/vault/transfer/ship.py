"""From a directory into any vault: hash, put what is missing, seal; several blocks at a time.

The directory belongs to a guest, which may do anything to it meanwhile. So no link is followed on the way to
a file, nothing but files, directories and inward links is taken, and a file that changes between the first
look at it and the seal makes the checkpoint torn instead of wrong.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

from gpunion.vault.cores import threads
from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    BadManifest,
    CheckpointLabel,
    CheckpointTorn,
    FileEntry,
    Manifest,
    ShipCancelled,
    Vault,
    VaultFault,
)
from gpunion.vault.manifests import check_links
from gpunion.vault.transfer.known import Known, KnownFiles, look_of, prove
from gpunion.vault.transfer.upload import Upload
from gpunion.vault.transfer.walk import (
    Done,
    Folders,
    Signature,
    local_trouble,
    named,
    open_regular,
    opened,
    signature,
    walk,
)
from gpunion.vault.tree import FILES_MAX, PERMISSIONS

# One more than cores: while one waits for the disk the others compute. Also how many blocks an upload may run
# ahead of its pace, and hold in memory.
WORKERS = threads(more=1)


def ship_directory(
    vault: Vault,
    directory: str | os.PathLike[str],
    label: CheckpointLabel,
    *,
    parent: str | None = None,
    files: Iterable[str] | None = None,
    pace: Callable[[int], None] = lambda stored_bytes: None,
    cancelled: Callable[[], bool] = lambda: False,
    told: Callable[[int, int], None] = lambda done_bytes, total_bytes: None,
    known: KnownFiles | None = None,
    workers: int = WORKERS,
) -> Manifest:
    """Make the directory (or just `files`, relative paths in it) a sealed checkpoint and return its manifest.

    `pace` is told after each block how many bytes went out, and may wait; `told` hears how many bytes of how
    many are done, sent or found in the vault already. All callbacks are called from this thread only. `known`
    remembers what need not be read again. Without a `parent` the job's newest checkpoint is it. Nothing is
    sealed when this raises.
    """
    vault.begin(label.job_id, label.epoch)
    parent = parent or _newest(vault, label.job_id)
    with local_trouble(), ExitStack() as held:
        root = held.enter_context(opened(directory))
        pool = held.enter_context(ThreadPoolExecutor(workers))
        paths = sorted(walk(root, None) if files is None else named(root, files))
        if len(paths) > FILES_MAX:
            raise BadManifest(f"more than {FILES_MAX} files in one checkpoint")
        looks = _looks(root, paths)
        done = Done(looks.values(), told)
        upload = Upload(vault, pool, workers, pace, cancelled, done.more)
        shipment = _Shipment(
            folders=held.enter_context(Folders(root)),
            upload=upload,
            # Asked for once: a question for every file would be a round trip for each, or a lock.
            present=vault.has(known.proven_blocks(label.job_id)) if known is not None else set(),
            known=known,
            job_id=label.job_id,
            done=done,
        )
        with upload:
            drafts = [shipment.take(path) for path in paths]
        entries = shipment.entries(drafts)
        for path, now in _looks(root, paths).items():
            if now != looks[path]:
                raise CheckpointTorn(f"{path} changed while the checkpoint was read")
    manifest = Manifest(
        **asdict(label),
        parent=parent,
        files=entries,
        block_size_bytes=BLOCK_SIZE_BYTES,
        total_bytes=sum(entry.size_bytes for entry in entries),
        new_bytes=upload.stored_bytes,
    )
    if cancelled():
        raise ShipCancelled(f"{label.checkpoint_id} is no longer wanted")
    vault.seal(manifest)
    shipment.remember()
    return manifest


def _newest(vault: Vault, job_id: str) -> str | None:
    """None when it cannot be read: it is history, and this save is whole by itself."""
    try:
        found = vault.latest(job_id)
    except VaultFault as fault:
        if fault.temporary and not isinstance(fault, BadManifest):
            raise
        return None
    return None if found is None else found.checkpoint_id


def _looks(root: int, paths: Iterable[str]) -> dict[str, Signature]:
    with Folders(root) as folders:
        return {path: signature(folders.look(path)) for path in paths}


@dataclass
class _Shipment:
    folders: Folders
    upload: Upload
    present: set[str]
    known: KnownFiles | None
    job_id: str
    done: Done
    learnt: dict[str, Callable[[], Known]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def take(self, path: str) -> Callable[[], FileEntry]:
        """Begin to send it; the result is asked for when the upload is over."""
        folder, name = self.folders.of(path)
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind, mode = stat.S_IFMT(about.st_mode), about.st_mode & PERMISSIONS
        if kind == stat.S_IFDIR:
            return lambda: FileEntry(path=path, size_bytes=0, mode=kind | mode, blocks=())
        if kind == stat.S_IFLNK:
            target = os.readlink(name, dir_fd=folder)
            self.links[path] = target
            data = os.fsencode(target)
            sent = self.upload.small(data)
            size_bytes = len(data)
        elif kind == stat.S_IFREG:
            sent = self._file(path, about, lambda: open_regular(folder, name, path, about))
            size_bytes = about.st_size
        else:
            raise BadManifest(f"{path!r} is neither a file nor a directory")
        return lambda: FileEntry(path=path, size_bytes=size_bytes, mode=kind | mode, blocks=sent())

    def entries(self, drafts: Iterable[Callable[[], FileEntry]]) -> tuple[FileEntry, ...]:
        check_links(self.links)
        return tuple(draft() for draft in drafts)

    def remember(self) -> None:
        if self.known is not None:
            self.known.learn(self.job_id, {path: known() for path, known in self.learnt.items()})

    def _file(
        self, path: str, about: os.stat_result, open_it: Callable[[], int]
    ) -> Callable[[], tuple[str, ...]]:
        seen = self.known.find(self.job_id, path, about) if self.known is not None else None
        if seen is not None and seen.proven and self.present.issuperset(seen.blocks):
            self.learnt[path] = lambda: seen
            self.done.more(about.st_size)
            return lambda: seen.blocks
        descriptor = open_it()
        proof = None if seen is None else self.upload.ahead(lambda: prove(descriptor, about))
        blocks = self.upload.file(descriptor, about.st_size, proof)
        if self.known is not None:
            look = look_of(about)
            self.learnt[path] = lambda: Known(
                look=look, blocks=blocks(), proven=proof is not None and proof.result()
            )
        return blocks
