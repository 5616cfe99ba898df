from __future__ import annotations

import pytest

from gpunion.adapters.files.patience import Patience
from gpunion.coordinator.space import PlaceSpace, Space

GB = 1000**3


def spaces(left: dict[str, Space | OSError], keep_free_bytes: int = GB // 2) -> PlaceSpace:
    def look(directory: str) -> Space:
        found = left[directory]
        if isinstance(found, OSError):
            raise found
        return found

    folders = {"campus": "/vault", "attic": "/nfs/attic"}
    return PlaceSpace(folders, look=look, ask=Patience(5.0).ask, keep_free_bytes=keep_free_bytes)


async def test_of_folders_that_answer_it_is_told_and_of_nothing_else() -> None:
    much = Space(free_bytes=500 * GB, total_bytes=1000 * GB)
    found = spaces({"/vault": much, "/nfs/attic": OSError("stale handle")})
    assert await found.left(["campus", "attic", "bucket"]) == {"campus": much}


@pytest.mark.parametrize(
    ("free_gb", "total_gb", "words"),
    [
        (500, 1000, ""),
        (11, 10_000, ""),  # some saves fit there, however large the disk is
        (9, 10_000, "little room is left"),
        (6, 100, ""),
        (4, 100, "little room is left"),
        (0.4, 4, "no room is left"),  # what is left belongs to the coordinator itself
        (0, 1, "no room is left (0 bytes of 1 GB)"),
    ],
)
def test_little_is_little_of_that_disk_and_of_what_saves_take(
    free_gb: float, total_gb: float, words: str
) -> None:
    space = Space(free_bytes=int(free_gb * GB), total_bytes=int(total_gb * GB))
    said = spaces({}).why_low("campus", space)
    assert said.startswith(words)
    assert bool(said) == bool(words)
    if said:
        assert said.endswith("gpunion vault ls campus shows what lies there")
