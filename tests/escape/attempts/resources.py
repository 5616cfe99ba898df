"""More than a guest was given."""

from __future__ import annotations

import os

from .trying import Targets, attempt


@attempt
def fork_without_end(host: Targets) -> object:
    """Up to a bound well above the limit that this guest was given."""
    children: list[int] = []
    hold, release = os.pipe()
    try:
        while len(children) < host["forks"]:
            child = os.fork()
            if child == 0:
                os.close(release)
                os.read(hold, 1)
                os._exit(0)
            children.append(child)
    finally:
        os.close(release)
        for child in children:
            os.waitpid(child, 0)
    return len(children)
