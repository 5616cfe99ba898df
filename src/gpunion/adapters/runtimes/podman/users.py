"""Who a guest is under Podman: in a user namespace of its own wherever that works.

What works depends on the kernel, on the engine's storage and, without root, on what its administrator has
given a user: it is tried with a small container.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble
from gpunion.adapters.runtimes.containers.guest_user import GuestUser, OtherUsers
from gpunion.adapters.runtimes.containers.host_image import HOST_IMAGE, ensure_host_image
from gpunion.adapters.runtimes.keeper.users import SHARED_GUEST_ID
from gpunion.adapters.runtimes.sandbox.bubblewrap import GUEST_ID

# From the range that systemd's list of user ids leaves to nobody (1,879,048,192 to 2,147,352,575). All guests
# share it: they are kept apart by their other namespaces.
FIRST_HOST_ID = 1_900_000_000
MAPPED_IDS = 65_536
MAP_WORDS = tuple(
    word for option in ("--uidmap", "--gidmap") for word in (option, f"0:{FIRST_HOST_ID}:{MAPPED_IDS}")
)
PROBE_WORDS = (
    "--ulimit",
    "nofile=1024:1024",
    "--ulimit",
    "nproc=1024:1024",
    "--network",
    "none",
    "--read-only",
)
# A container is called by the beginning of its id until somebody names it, and its cgroups bear the id.
PROBE_PROGRAM = ("/usr/bin/cat", "/etc/hostname", "/proc/self/cgroup")
SHORT_ID_DIGITS = 12
KEEP_WORDS = ("--userns", "keep-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a container of this user's got."""

    user: GuestUser
    own_cgroup: bool


def guest_user(uid: int, gid: int, *, maps_users: bool) -> GuestUser:
    if uid != 0 and maps_users:
        return GuestUser(
            inside=f"{uid}:{gid}",
            words=KEEP_WORDS,
            others=OtherUsers.KEPT,
            described=f"user namespace, user {uid} outside",
        )
    if uid != 0:
        # A user without ids beside its own can be one alone inside, and has no capability as that one either.
        return GuestUser(inside="0:0", described=f"user namespace of one user, user {uid} outside")
    if maps_users:
        host_id = FIRST_HOST_ID + GUEST_ID
        described = f"user namespace, user {host_id}"
        return GuestUser(
            inside=f"{GUEST_ID}:{GUEST_ID}",
            words=MAP_WORDS,
            host_id=host_id,
            others=OtherUsers.MAPPED,
            first_host_id=FIRST_HOST_ID,
            described=described,
        )
    shared = SHARED_GUEST_ID
    return GuestUser(inside=f"{shared}:{shared}", host_id=shared, described=f"user {shared}")


@cache
def maps_users(program: tuple[str, ...]) -> bool:
    """Under root; once in a process."""
    try:
        _run_small(program, MAP_WORDS)
    except EngineTrouble:
        return False
    return True


@cache
def try_without_root(program: tuple[str, ...], uid: int, gid: int) -> Tried:
    """Once in a process. EngineTrouble where this user cannot have a container in any way."""
    keeps = guest_user(uid, gid, maps_users=True)
    try:
        return Tried(user=keeps, own_cgroup=has_own_cgroup(_run_small(program, _words(keeps))))
    except EngineTrouble:
        alone = guest_user(uid, gid, maps_users=False)
        return Tried(user=alone, own_cgroup=has_own_cgroup(_run_small(program, _words(alone))))


def has_own_cgroup(told: str) -> bool:
    """`told`: a container's short id, then what the kernel calls its cgroups."""
    return told[:SHORT_ID_DIGITS] in told[SHORT_ID_DIGITS:]


def _words(user: GuestUser) -> tuple[str, ...]:
    return ("--user", user.inside, *user.words)


def _run_small(program: tuple[str, ...], words: tuple[str, ...]) -> str:
    engine = Engine("podman", list(program))
    ensure_host_image(engine)
    bound = ("--mount", "type=bind,source=/usr,target=/usr,readonly", "--cgroupns", "host")
    return engine.call(
        "run", "--rm", "--pull", "never", *PROBE_WORDS, *words, *bound, HOST_IMAGE, *PROBE_PROGRAM
    )
