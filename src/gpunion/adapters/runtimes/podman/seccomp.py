"""Podman's own profile of system calls, without those that make namespaces.

Its default leaves a container free to make user namespaces, for containers inside containers. In one a guest
has every capability over it, and with them a large part of the kernel to try its luck on. Docker's default
says no; so do we. Found by the escape suite.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from gpunion.files import write_json

# Where Podman looks for its profile, in its order.
PROFILES = (Path("/etc/containers/seccomp.json"), Path("/usr/share/containers/seccomp.json"))
PROFILE_NAME = "podman-seccomp.json"

NAMESPACE_CALLS = frozenset(
    {
        *("unshare", "setns", "clone", "clone3", "pivot_root", "chroot", "mount", "umount", "umount2"),
        *("fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "keyctl"),
    }
)
# Every CLONE_NEW* that is an argument of clone(2), from the kernel's sched.h.
NAMESPACE_FLAGS = 0x7E020000


def stricter(profile: dict[str, Any]) -> dict[str, Any]:
    """The profile without namespaces. A thread or a process is still made: clone without those flags."""
    rules = [
        rule | {"names": [name for name in rule["names"] if name not in NAMESPACE_CALLS]}
        if rule["action"] == "SCMP_ACT_ALLOW"
        else rule
        for rule in profile["syscalls"]
    ]
    no_namespace = {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    rules = [rule for rule in rules if rule["names"]]
    refused = {name for rule in rules if rule["action"] == "SCMP_ACT_ERRNO" for name in rule["names"]}
    others = sorted(NAMESPACE_CALLS - {"clone", "clone3"} - refused)
    rules += [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespace]},
        # Its flags cannot be looked at; the C library then falls back to clone.
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
        {"names": others, "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM},
    ]
    return profile | {"syscalls": rules}


def profile_words(state_dir: str | os.PathLike[str], places: tuple[Path, ...] = PROFILES) -> tuple[str, ...]:
    """Options of `create`; none where Podman has no profile of its own that we could read."""
    for place in places:
        try:
            profile = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        target = Path(state_dir).resolve() / PROFILE_NAME
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(str(target), stricter(profile), durable=False)
        return ("--security-opt", f"seccomp={target}")
    return ()
