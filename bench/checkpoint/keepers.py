"""The ways to keep a series of checkpoints, each with one `save` and one `restore`.

Every save ends when the checkpoint is on the disk: ours, restic and borg see to that themselves, the others
are followed by a sync of the file system, which counts as theirs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from gpunion.vault.manifest import CheckpointLabel, Manifest
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.known import KnownFiles
from gpunion.vault.transfer.ship import ship_directory


class Tool:
    name = ""
    program = ""

    def __init__(self, store: Path) -> None:
        self.store = store
        store.mkdir(parents=True)
        self.stored_bytes = 0

    @classmethod
    def here(cls) -> bool:
        return not cls.program or shutil.which(cls.program) is not None

    def begin(self) -> None:
        """What is done once, before the first save."""

    def save(self, live: Path, number: int) -> int:
        """Bytes shipped: what crosses to where the checkpoints are."""
        raise NotImplementedError

    def account(self) -> None:
        """After a save, not timed: bring `stored_bytes` up to date."""
        self.stored_bytes = size_of(self.store)

    def restore(self, target: Path) -> None:
        """The newest."""
        raise NotImplementedError

    def _sync(self) -> None:
        _run("sync", "-f", str(self.store))


class Ours(Tool):
    name = "gpunion"

    def begin(self) -> None:
        self.vault = DirectoryVault(self.store / "vault")
        self._known = KnownFiles()

    def save(self, live: Path, number: int) -> int:
        return ship_directory(self.vault, live, label_of(number), known=self._known).new_bytes

    def newest(self) -> Manifest:
        found = self.vault.latest("job")
        assert found is not None
        return found

    def restore(self, target: Path) -> None:
        restore_directory(self.vault, self.newest(), target)


class Copies(Tool):
    """A whole copy each time. Only the newest stays, else few disks would do; all are counted."""

    name = "cp"
    program = "cp"
    before = 0

    def save(self, live: Path, number: int) -> int:
        self._copy(live, self.store / "new")
        self._sync()
        return size_of(self.store / "new")

    def account(self) -> None:
        self.stored_bytes += size_of(self.store / "new")
        shutil.rmtree(self.store / "newest", ignore_errors=True)
        (self.store / "new").rename(self.store / "newest")

    def restore(self, target: Path) -> None:
        _run("cp", "-a", str(self.store / "newest"), str(target))

    def _copy(self, live: Path, target: Path) -> None:
        _run("cp", "-a", str(live), str(target))


class Zstd(Copies):
    name = "zstd"
    program = "zstd"

    def _copy(self, live: Path, target: Path) -> None:
        target.mkdir()
        _run("zstd", "-q", "-T0", "-r", str(live), "--output-dir-flat", str(target))

    def restore(self, target: Path) -> None:
        target.mkdir()
        _run("zstd", "-q", "-d", "-r", str(self.store / "newest"), "--output-dir-flat", str(target))


class Rsync(Tool):
    """A directory per checkpoint, with hard links to what is unchanged since the one before."""

    name = "rsync"
    program = "rsync"

    def save(self, live: Path, number: int) -> int:
        out = _run(
            # Times to the nanosecond: two saves within a second would look the same to it.
            *("rsync", "-a", "--modify-window=-1", "--stats", f"--link-dest={self.store / 'newest'}"),
            *(f"{live}/", f"{self.store / 'new'}/"),
        )
        self._sync()
        found = re.search(r"Literal data: ([\d,.]+)", out)
        return int(re.sub(r"\D", "", found[1])) if found else 0

    def account(self) -> None:
        new = self.store / "new"
        self.stored_bytes += sum(
            path.stat().st_size for path in new.rglob("*") if path.is_file() and path.stat().st_nlink == 1
        )
        shutil.rmtree(self.store / "newest", ignore_errors=True)
        new.rename(self.store / "newest")

    def restore(self, target: Path) -> None:
        _run("rsync", "-a", f"{self.store / 'newest'}/", f"{target}/")


class Restic(Tool):
    name = "restic"
    program = "restic"

    def begin(self) -> None:
        self._restic("init")

    def save(self, live: Path, number: int) -> int:
        before = size_of(self.store)
        self._restic("backup", "-q", str(live))
        return size_of(self.store) - before

    def restore(self, target: Path) -> None:
        self._restic("restore", "-q", "latest", "--target", str(target))

    def _restic(self, *words: str) -> None:
        cache = self.store.with_name("restic-cache")
        _run("restic", "-r", str(self.store), "--cache-dir", str(cache), *words, RESTIC_PASSWORD="bench")


class Borg(Tool):
    name = "borg"
    program = "borg"
    number = 0

    def begin(self) -> None:
        self._borg("init", "-e", "none", str(self.store / "repo"))

    def save(self, live: Path, number: int) -> int:
        before = size_of(self.store)
        self._borg("create", "-C", "zstd,3", f"{self.store / 'repo'}::{number}", ".", where=live)
        self.number = number
        return size_of(self.store) - before

    def restore(self, target: Path) -> None:
        target.mkdir()
        self._borg("extract", f"{self.store / 'repo'}::{self.number}", where=target)

    def _borg(self, *words: str, where: Path | None = None) -> None:
        _run("borg", *words, where=where, BORG_BASE_DIR=str(self.store.with_name("borg-base")))


TOOLS: tuple[type[Tool], ...] = (Ours, Copies, Zstd, Rsync, Restic, Borg)


def label_of(number: int) -> CheckpointLabel:
    """Of one in a series, which is all there is of its job."""
    return CheckpointLabel(
        checkpoint_id=f"c{number}",
        job_id="job",
        epoch=1,
        step=number,
        progress=0.0,
        tier="app",
        created_s=0.0,
    )


def size_of(root: Path) -> int:
    """Each file once, however many names it has."""
    seen: dict[int, int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            about = os.lstat(os.path.join(folder, name))
            seen[about.st_ino] = about.st_size
    return sum(seen.values())


def _run(*words: str, where: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=where, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-500:]}")
    return done.stdout
