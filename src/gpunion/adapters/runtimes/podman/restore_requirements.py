"""What must be around a dumped container for it to come to life: compared before anything is tried."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import asdict, dataclass

from gpunion.adapters.runtimes.containers.guest_user import GuestUser
from gpunion.text import counted

FORMAT = 1
TARGET = "target="


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    image: str
    user: str  # inside, and how it becomes a user of the host
    mounts: tuple[str, ...]  # where things are mounted inside; what is there may come from elsewhere
    gpu_indices: tuple[int, ...]
    extra_bytes: int = (
        0  # of memory beyond its grant: what it has on its GPU, in host memory until it is back
    )

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """ValueError for anything that is not one."""
        try:
            record = json.loads(text)
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']} is not {FORMAT}")
            return cls(
                image=str(record["image"]),
                user=str(record["user"]),
                mounts=tuple(str(mount) for mount in record["mounts"]),
                gpu_indices=tuple(int(index) for index in record["gpu_indices"]),
                extra_bytes=max(0, int(record.get("extra_bytes", 0))),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"it lacks {error}") from error


def recipe_of(words: list[str], user: GuestUser, gpu_indices: tuple[int, ...]) -> Recipe:
    """From the words that `create` the container. The image comes after the last option, the entry point."""
    mounts = []
    last = words.index("--entrypoint")
    for option, value in itertools.pairwise(words[:last]):
        if option == "--mount":
            mounts += [part.removeprefix(TARGET) for part in next(csv.reader([value])) if TARGET in part]
        elif option == "--tmpfs":
            mounts.append(value.partition(":")[0])
    return Recipe(
        image=words[last + 2],
        user=" ".join([user.inside, *user.words]),
        mounts=tuple(sorted(mounts)),
        gpu_indices=gpu_indices,
    )


def unfit(dumped: Recipe, here: Recipe) -> str:
    """Why a guest that was dumped cannot come to life here; empty when nothing speaks against it."""
    if dumped.image != here.image:
        return f"it ran in the image {dumped.image}, guests here run in {here.image}"
    if dumped.user != here.user:
        return f"it ran as user {dumped.user}, guests here are {here.user}"
    if len(dumped.gpu_indices) != len(here.gpu_indices):
        return f"it had {counted(len(dumped.gpu_indices), 'GPU')} and has {len(here.gpu_indices)} here"
    lacking = sorted(set(dumped.mounts) - set(here.mounts))
    if lacking:
        return f"it saw {lacking[0]}, which guests here do not see"
    more = sorted(set(here.mounts) - set(dumped.mounts))
    return f"guests here see {more[0]}, which it did not" if more else ""
