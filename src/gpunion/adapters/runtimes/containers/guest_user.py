"""Who a guest is, inside its container and to the host; and whether it can be whom its image names.

An image's user is a number inside. Where users inside are others outside, any number will do. Docker without
such a mapping makes it that user of the host: then it is given only where that is nobody. Root is given to
nobody: where an image names no user, or root, its guest is whoever guests are here.
"""

from __future__ import annotations

import pwd
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble
from gpunion.ports.runtime import RuntimeFault

IDS = 65_536  # how many a mapping holds
ROOT = ("", "root", "0")


class OtherUsers(StrEnum):
    """How a guest can be somebody else inside than guests are by themselves."""

    NONE = "none"
    CLAIMED = "claimed"  # the same number outside, and no other guest's
    MAPPED = "mapped"  # a range of numbers that are nobody's outside
    KEPT = "kept"  # Podman without root: the agent's own user has any number inside


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestUser:
    """Who a guest is: inside its container, and to the host."""

    inside: str = ""  # "uid:gid"
    words: tuple[str, ...] = ()  # the engine's words for how the one becomes the other
    host_id: int | None = None  # who has to own its directories; None: whoever made them
    own: bool = False  # each guest is another one, on both sides; see `keeper.users`
    others: OtherUsers = OtherUsers.NONE
    first_host_id: int = 0  # of a mapped range: who user 0 is outside
    described: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    user: int
    group: int


def as_image_says(user: GuestUser, ids: Ids, said: str, claim: Callable[[int], int]) -> GuestUser:
    """RuntimeFault, with what would help, where a guest cannot be that user here."""
    if not 0 < ids.user < IDS or not 0 <= ids.group < IDS:
        raise _refused(
            said, f"guests can be users 1 to {IDS - 1} here", "name a user below that in the image"
        )
    match user.others:
        case OtherUsers.MAPPED:
            host_id = user.first_host_id + ids.user
            return replace(user, inside=f"{ids.user}:{ids.group}", host_id=host_id)
        case OtherUsers.KEPT:
            words = ("--userns", f"keep-id:uid={ids.user},gid={ids.group}")
            return replace(user, inside=f"{ids.user}:{ids.group}", words=words)
        case OtherUsers.CLAIMED:
            somebody = account_of(ids.user)
            if somebody:
                raise _refused(
                    said,
                    f"outside the container that number is {somebody}'s",
                    "run it where the runtime is podman, or have the owner give Docker users of its own "
                    "(userns-remap)",
                )
            claim(ids.user)
            return replace(user, inside=f"{ids.user}:{ids.user}", host_id=ids.user)
        case OtherUsers.NONE:
            raise _refused(
                said, f"guests are {user.described} here", "run it where the runtime is podman with root"
            )


def account_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return ""


def _refused(said: str, why: str, next_step: str) -> RuntimeFault:
    return RuntimeFault(
        f"the image's user is {said}, and this machine cannot give it: {why}. Next: {next_step}",
        temporary=False,
    )


def ids_in_image(engine: Engine, image: str, said: str, container: str) -> Ids | None:
    """The numbers of the user an image names, by its own lists of users and groups; None: it is root.

    `container`: a name for one that is made to read those lists, and never started.
    """
    if said.partition(":")[0] in ROOT:
        return None
    user, _, group = said.partition(":")
    if user.isdecimal() and group.isdecimal():
        return Ids(user=int(user), group=int(group))
    users, groups = _lists(engine, image, container)
    known = next((line for line in users if user in (line[0], line[2])), None)
    if known is None and not user.isdecimal():
        raise RuntimeFault(
            f"the image's user is {said}, and its /etc/passwd has none of that name", temporary=False
        )
    number = int(known[2]) if known is not None else int(user)
    if not group:
        ids = Ids(user=number, group=int(known[3]) if known is not None else 0)
    elif group.isdecimal():
        ids = Ids(user=number, group=int(group))
    else:
        found = next((line for line in groups if line[0] == group), None)
        if found is None:
            raise RuntimeFault(
                f"the image's user is {said}, and its /etc/group has no group of that name", temporary=False
            )
        ids = Ids(user=number, group=int(found[2]))
    return ids if ids.user else None


def _lists(engine: Engine, image: str, container: str) -> tuple[list[list[str]], list[list[str]]]:
    engine.remove(container)  # of an agent that died over it
    words = ("--network", "none", "--user", "0", "--workdir", "/", "--entrypoint", "/never", image)
    engine.call("create", "--pull", "never", "--name", container, *words)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return tuple(_copied(engine, container, name, folder) for name in ("passwd", "group"))  # type: ignore[return-value]
    finally:
        engine.remove(container)


def _copied(engine: Engine, container: str, name: str, folder: str) -> list[list[str]]:
    """Lines that are none are nobody's. A link is left alone: it would lead to a file of the host's."""
    copy = Path(folder, name)
    try:
        engine.call("cp", f"{container}:/etc/{name}", str(copy))
    except EngineTrouble as trouble:
        if not trouble.no_such_file:
            raise
        return []
    if copy.is_symlink() or not copy.is_file():
        return []
    least = 4 if name == "passwd" else 3
    lines = [line.split(":") for line in copy.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [line for line in lines if len(line) >= least and all(word.isdecimal() for word in line[2:least])]
