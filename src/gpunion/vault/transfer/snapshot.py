"""A cut through a guest's directories that stays as it is while the guest goes on.

The guest may do anything meanwhile, so directories are walked by descriptor and no link is followed: what a
link points at on the host never gets into a checkpoint. Checking names and links for the way back is the
vault's side's business.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from gpunion.files import NO_ROOM
from gpunion.vault.manifest import BadManifest, CheckpointTorn, LocalDiskTrouble, ShipCancelled
from gpunion.vault.tree import BadTree, check_link_strictly

COPY_BYTES = 4 * 1024**2
# Deeper trees are an attack on the walker, not a checkpoint.
DEPTH_MAX = 64
# Of what a program leaves behind: there is no next save that could do without it.
OUTPUT_DEPTH_MAX = 256

# Who writes a file anew every second has it at rest in one of these.
REWRITES_MOST = 4

CopyFile = Callable[[int, str, Path], None]


def cut(
    source: Path,
    target: Path,
    *,
    files: tuple[str, ...] | None,
    still: bool,
    cancelled: Callable[[], bool],
    output: bool = False,
) -> None:
    """Make `target` hold what `source` holds now. Only `files` where they are named, each must be there.

    `still`: nobody writes there any more, so links are as good as copies and cost nothing. `output`: it is
    no state, and the program may go on writing there. Symbolic links that lead outside, which no vault takes,
    are left out then, and so is a file that goes away; one that grows is taken as long as it was, and only
    one that keeps changing otherwise makes the cut torn.
    """
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(mode=0o700, parents=True)
    wanted = None if files is None else _with_parents(files)
    found: set[str] = set()
    copy: CopyFile = _link if still else _copy_growing if output else _copy
    try:
        folder = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _Cutter(copy, wanted, found, cancelled, output).walk(folder, "", target, 0)
        finally:
            os.close(folder)
    except FileNotFoundError as error:
        raise CheckpointTorn(f"{error.filename} went away while the checkpoint was taken") from error
    except OSError as error:
        raise LocalDiskTrouble(
            f"the checkpoint cannot be set aside: {error.strerror or error}", no_room=error.errno in NO_ROOM
        ) from error
    missing = sorted(set(files or ()) - found)
    if missing:
        raise CheckpointTorn(f"{missing[0]} is named as saved and is not there")


def may_read(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)


def make_readable(folder: Path, may_read: Callable[[Path], bool] = may_read) -> None:
    """What a program made and left without leave to read it is its result all the same. For a folder in which
    nobody writes any more. BadManifest: it is not ours to give that leave."""
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        _grant(folder, place, stat.S_IRUSR | stat.S_IXUSR, may_read)
        for entry in _entries(place):
            path = Path(entry.path)
            if entry.is_file(follow_symlinks=False):
                _grant(folder, path, stat.S_IRUSR, may_read)
            elif entry.is_dir(follow_symlinks=False) and depth < OUTPUT_DEPTH_MAX:
                waiting.append((path, depth + 1))


def _grant(folder: Path, path: Path, leave: int, may_read: Callable[[Path], bool]) -> None:
    with contextlib.suppress(OSError):  # whoever sends it says what else is wrong with it
        if may_read(path):
            return
        about = path.stat(follow_symlinks=False)
        try:
            path.chmod(stat.S_IMODE(about.st_mode) | leave)
        except PermissionError as error:
            name, mode = path.relative_to(folder), stat.filemode(about.st_mode)
            raise BadManifest(f"{name} cannot be read ({mode}, of user {about.st_uid})") from error


def _entries(place: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return list(entries)
    except OSError:
        return []


def remove_links_that_lead_outside(folder: Path) -> list[str]:
    """Names them. For a folder in which nobody writes any more. BadManifest: nobody could walk through it."""
    found = []
    for place, folders, files in os.walk(folder):
        if len(Path(place).relative_to(folder).parts) > OUTPUT_DEPTH_MAX:
            raise BadManifest(f"its directories are nested more than {OUTPUT_DEPTH_MAX} deep")
        for path in (Path(place, name) for name in (*folders, *files)):
            name = str(path.relative_to(folder))
            if path.is_symlink() and not stays_inside(name, os.readlink(path)):
                path.unlink()
                found.append(name)
    return sorted(found)


def stays_inside(path: str, leads_to: str) -> bool:
    try:
        check_link_strictly(path, leads_to)
    except BadTree:
        return False
    return True


class _Cutter:
    def __init__(
        self,
        copy: CopyFile,
        wanted: set[str] | None,
        found: set[str],
        cancelled: Callable[[], bool],
        output: bool,
    ) -> None:
        self._copy = copy
        self._wanted = wanted
        self._found = found
        self._cancelled = cancelled
        self._output = output

    def walk(self, folder: int, prefix: str, target: Path, depth: int, *, all_of_it: bool = False) -> None:
        if depth > DEPTH_MAX:
            raise BadManifest(f"{prefix[:80]!r} is deeper than {DEPTH_MAX} directories")
        for name in sorted(os.listdir(folder)):
            path = f"{prefix}{name}"
            if not all_of_it and self._wanted is not None and path not in self._wanted:
                continue
            if self._cancelled():
                raise ShipCancelled("the checkpoint is no longer wanted")
            self._found.add(path)
            try:
                self._take(folder, name, path, target / name, depth, all_of_it)
            except FileNotFoundError:
                if not self._output:  # there it was a passing name, or is not wanted any more
                    raise

    def _take(self, folder: int, name: str, path: str, target: Path, depth: int, all_of_it: bool) -> None:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            whole = all_of_it or (self._wanted is not None and f"{path}/" in self._wanted)
            self._enter(folder, name, path, target, depth, stat.S_IMODE(mode), whole)
        elif stat.S_ISLNK(mode):
            leads_to = os.readlink(name, dir_fd=folder)
            if not self._output or stays_inside(path, leads_to):
                os.symlink(leads_to, target)
        elif stat.S_ISREG(mode):
            self._copy(folder, name, target)
        # Sockets, pipes and devices hold no state.

    def _enter(
        self, folder: int, name: str, path: str, target: Path, depth: int, mode: int, all_of_it: bool
    ) -> None:
        target.mkdir(mode=0o700)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            self.walk(inner, f"{path}/", target, depth + 1, all_of_it=all_of_it)
        finally:
            os.close(inner)
        os.chmod(target, mode | stat.S_IRWXU)


def _with_parents(files: tuple[str, ...]) -> set[str]:
    """The named paths, the way to them, and (marked by a slash) that all inside a named directory belongs."""
    wanted: set[str] = set()
    for path in files:
        parts = path.split("/")
        if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise BadManifest(f"{path[:80]!r} does not name a file in the checkpoint directory")
        wanted.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        wanted.add(f"{path}/")
    return wanted


def _link(folder: int, name: str, target: Path) -> None:
    try:
        os.link(name, target, src_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        _copy(folder, name, target)


def _copy(folder: int, name: str, target: Path) -> None:
    before, after = _copied(folder, name, target)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise CheckpointTorn(f"{name} changed while the checkpoint was taken")


def _copy_growing(folder: int, name: str, target: Path) -> None:
    """A log is never at rest. Other changes are waited out, and a file that is always rewritten is torn."""
    for _ in range(REWRITES_MOST):
        before, after = _copied(folder, name, target)
        if before.st_mtime_ns == after.st_mtime_ns or before.st_size < after.st_size:
            return
        target.unlink()
    raise CheckpointTorn(f"{name} changed while the checkpoint was taken, {REWRITES_MOST} times in a row")


def _copied(folder: int, name: str, target: Path) -> tuple[os.stat_result, os.stat_result]:
    """As many bytes as it had when it was opened; what it looked like before and after."""
    # Not blocking: it may have become a pipe since it was looked at.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as source, open(target, "xb", buffering=0) as copy:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise CheckpointTorn(f"{name} is no longer a file")
        offset = 0
        while (offset := _next_data(descriptor, offset)) < before.st_size:
            source.seek(offset)
            piece = source.read(min(before.st_size - offset, COPY_BYTES))
            if not piece:
                break
            copy.seek(offset)
            offset += len(piece)
            while piece:
                piece = piece[copy.write(piece) :]
        # With its holes: a file that says of itself that it is huge must not fill the disk.
        copy.truncate(min(before.st_size, os.fstat(descriptor).st_size))
        os.fchmod(copy.fileno(), stat.S_IMODE(before.st_mode))
        return before, os.fstat(descriptor)


def _next_data(descriptor: int, offset: int) -> int:
    """Where the next bytes are that are no hole; past every end where there are none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return sys.maxsize if error.errno == errno.ENXIO else offset  # a system that knows of no holes
