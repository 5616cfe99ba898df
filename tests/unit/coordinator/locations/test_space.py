from __future__ import annotations

import pytest

from gpunion.coordinator.locations.space import PlaceSpace, Space
from gpunion.vault.timeout_guard import Patience

GB = 1000**3


def spaces(left: dict[str, Space | OSError]) -> PlaceSpace:
    def look(directory: str) -> Space:
        found = left[directory]
        if isinstance(found, OSError):
            raise found
        return found

    folders = {"campus": "/vault", "attic": "/nfs/attic"}
    return PlaceSpace(folders, look=look, ask=Patience(5.0).ask)


async def test_of_folders_that_answer_it_is_told_and_of_nothing_else() -> None:
    much = Space(free_bytes=500 * GB, total_bytes=1000 * GB)
    found = spaces({"/vault": much, "/nfs/attic": OSError("stale handle")})
    assert await found.left(["campus", "attic", "bucket"]) == {"campus": much}


@pytest.mark.parametrize(
    ("free_gb", "total_gb", "kept_gb", "words"),
    [
        (500, 1000, 0.5, ""),
        (11, 10_000, 0.5, ""),  # some saves fit there, however large the disk is
        (9, 10_000, 0.5, "little room is left"),
        (6, 100, 0.5, ""),
        (4, 100, 0.5, "little room is left"),
        (0.4, 4, 0.5, "no room is left"),  # what is left belongs to the coordinator itself
        (0.4, 4, 0, ""),  # and on a disk of its own to the saves
        (0.06, 0.06, 0, ""),
        (0, 1, 0, "no room is left (0 bytes of 1 GB)"),
    ],
)
def test_little_is_little_of_that_disk_and_of_what_saves_take(
    free_gb: float, total_gb: float, kept_gb: float, words: str
) -> None:
    sizes = [int(size_gb * GB) for size_gb in (free_gb, total_gb, kept_gb)]
    space = Space(free_bytes=sizes[0], total_bytes=sizes[1], kept_bytes=sizes[2])
    said = spaces({}).why_low("campus", space)
    assert said.startswith(words)
    assert bool(said) == bool(words)
    if said:
        assert said.endswith("gpunion vault ls campus shows what lies there")


def test_a_disk_that_can_only_be_read_has_no_room_however_much_is_free() -> None:
    space = Space(free_bytes=500 * GB, total_bytes=1000 * GB, read_only=True)
    assert spaces({}).why_low("campus", space).startswith("it can only be read")
