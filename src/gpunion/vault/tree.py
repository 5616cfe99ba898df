"""A directory as a value: its files by name, size, kind and blocks, and when such a list is safe to use."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Fixed, since tensors change in place. Smaller ones cost a file and a sync each, see bench/checkpoint.
BLOCK_SIZE_BYTES = 4 * 1024 * 1024
FILES_MAX = 100_000
PERMISSIONS = 0o777  # no set-user-id bit travels
HASH_PATTERN = re.compile(r"[0-9a-f]{64}")
# Systems take paths of 4096 bytes in all: what is saved here must fit where it is restored, below whatever
# folder a machine keeps guests in.
PATH_LIMIT_BYTES = 3072
# A link's target is a path; longer ones no system takes.
LINK_LIMIT_BYTES = 4096
# So many links Linux follows on its way to one file.
FOLLOWED_MAX = 40
# A hundred thousand links of some dozen parts: seconds of work, where a list is made to take hours.
LINK_STEPS_MAX = 4_000_000


class BadTree(ValueError):
    """This list does not add up, or could lead outside its directory. The message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file, directory or relative link; `mode` has type and permission bits of stat.

    A link's content is its target: it has a size and a block like a file.
    """

    path: str  # relative, with "/"
    size_bytes: int
    mode: int
    blocks: tuple[str, ...]


def check_entries(files: Iterable[FileEntry]) -> None:
    kinds: dict[str, int] = {}
    for entry in files:
        check_path(entry.path)
        _check_entry(entry)
        if entry.path in kinds:
            raise BadTree(f"{entry.path!r} is there twice")
        kinds[entry.path] = stat.S_IFMT(entry.mode)
        if len(kinds) > FILES_MAX:
            raise BadTree(f"more than {FILES_MAX} files")
    seen: set[str] = set()
    for path in kinds:
        for parent in parents_of(path):
            if parent in seen:
                break  # and all above it
            seen.add(parent)
            if kinds.get(parent, stat.S_IFDIR) != stat.S_IFDIR:
                raise BadTree(f"{path!r} lies inside {parent!r}, which is no directory")


def check_path(path: str) -> None:
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise BadTree(f"{path!r} does not name a file inside the directory")
    try:
        length_bytes = len(path.encode(errors="surrogateescape"))  # names are bytes to the system
    except UnicodeEncodeError:
        raise BadTree(f"{path!r} cannot name a file") from None
    if length_bytes > PATH_LIMIT_BYTES:
        raise BadTree(
            f"{path[:80]!r}... is a path of {length_bytes} bytes, and could not be restored everywhere: "
            f"{PATH_LIMIT_BYTES} are the most"
        )


def check_link(path: str, target: str) -> None:
    """A link may point to another place of the same directory only."""
    depth = path.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            break
    if target.startswith("/") or not target or depth < 0 or "\0" in target:
        raise BadTree(f"the link {path!r} leads outside its directory")


def check_links(links: Mapping[str, str]) -> None:
    """Through one another they must not lead out either: of all links of a directory, by path, each is
    followed as a system would."""
    steps_left = LINK_STEPS_MAX
    for path, target in links.items():
        check_link(path, target)
        here = ["", *reversed(list(parents_of(path)))]  # the top, and each folder on the way
        parts, followed = target.split("/")[::-1], 0
        while parts and followed <= FOLLOWED_MAX:
            steps_left -= 1
            if not steps_left:
                raise BadTree("too many of its links lead through each other")
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(here) == 1:
                    raise BadTree(f"the link {path!r} leads outside its directory, by way of another")
                here.pop()
                continue
            next_one = f"{here[-1]}/{part}" if here[-1] else part
            through = links.get(next_one)
            if through is None:
                here.append(next_one)
            else:
                followed += 1  # more of them no system follows: such a link leads nowhere
                parts += through.split("/")[::-1]


def check_link_strictly(path: str, target: str) -> None:
    """Only up and then down: 'a/../b' could leave through a link called 'a'."""
    parts = target.split("/")
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    if not target or target.startswith("/") or ".." in parts[ups:] or ups > path.count("/") or "\0" in target:
        raise BadTree(f"the link {path!r} leads outside its directory, to {target!r}")


def parents_of(path: str) -> Iterable[str]:
    """The nearest first: of 'a/b/c' 'a/b' and 'a'."""
    parent, slash, _ = path.rpartition("/")
    while slash:
        yield parent
        parent, slash, _ = parent.rpartition("/")


def blocks_of(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_SIZE_BYTES)


def block_sizes(entry: FileEntry) -> Iterable[tuple[str, int]]:
    """Each block with how many bytes of the file it holds."""
    for index, block in enumerate(entry.blocks):
        yield block, min(BLOCK_SIZE_BYTES, entry.size_bytes - index * BLOCK_SIZE_BYTES)


def _check_entry(entry: FileEntry) -> None:
    kind = stat.S_IFMT(entry.mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) or entry.mode & ~(kind | PERMISSIONS):
        raise BadTree(f"{entry.path!r} has mode {entry.mode:o}")
    if entry.size_bytes < 0 or (kind == stat.S_IFDIR and entry.size_bytes):
        raise BadTree(f"{entry.path!r} has an impossible size")
    if kind == stat.S_IFLNK and not 0 < entry.size_bytes <= LINK_LIMIT_BYTES:
        raise BadTree(f"the link {entry.path!r} has a target of {entry.size_bytes} bytes")
    if len(entry.blocks) != blocks_of(entry.size_bytes):
        raise BadTree(f"{entry.path!r} has {len(entry.blocks)} blocks for {entry.size_bytes} bytes")
    if not all(HASH_PATTERN.fullmatch(block) for block in entry.blocks):
        raise BadTree(f"{entry.path!r} names a block that cannot be")
