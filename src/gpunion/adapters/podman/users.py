"""Who a guest is under Podman: in a user namespace of its own wherever that works."""

from __future__ import annotations

from functools import cache

from gpunion.adapters.containers.engine import Engine, EngineTrouble
from gpunion.adapters.containers.hostimage import HOST_IMAGE, ensure_host_image
from gpunion.adapters.containers.runtime import GuestUser
from gpunion.adapters.sandbox.bubblewrap import GUEST_ID
from gpunion.adapters.sandbox.stage import SHARED_GUEST_ID

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
PROBE_PROGRAM = "/usr/bin/true"


def guest_user(uid: int, gid: int, *, maps_users: bool) -> GuestUser:
    if uid != 0:
        return GuestUser(
            inside=f"{uid}:{gid}", words=("--userns", "keep-id"), described=f"user namespace, user {uid}"
        )
    if maps_users:
        host_id = FIRST_HOST_ID + GUEST_ID
        described = f"user namespace, user {host_id}"
        return GuestUser(
            inside=f"{GUEST_ID}:{GUEST_ID}", words=MAP_WORDS, host_id=host_id, described=described
        )
    shared = SHARED_GUEST_ID
    return GuestUser(inside=f"{shared}:{shared}", host_id=shared, described=f"user {shared}")


@cache
def maps_users(program: tuple[str, ...]) -> bool:
    """Tried, once in a process: whether it works depends on the kernel and on the engine's storage."""
    engine = Engine("podman", list(program))
    bound = ("--mount", "type=bind,source=/usr,target=/usr,readonly")
    try:
        ensure_host_image(engine)
        engine.call(
            "run", "--rm", "--pull", "never", *PROBE_WORDS, *MAP_WORDS, *bound, HOST_IMAGE, PROBE_PROGRAM
        )
    except EngineTrouble:
        return False
    return True
