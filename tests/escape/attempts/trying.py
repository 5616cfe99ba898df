"""What attempts share: a list of them all, the system's own calls, and the words for what came of one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

SYSCALLS = {"kexec_load": 246, "init_module": 175, "pivot_root": 155, "iopl": 172, "reboot": 169}

libc = ctypes.CDLL(None, use_errno=True)
Targets = dict[str, Any]
ATTEMPTS: dict[str, Callable[[Targets], object]] = {}


class Refused(Exception):
    """Refused without an error of the system's, for example because there is nothing to be seen."""


def attempt(function: Callable[[Targets], object]) -> Callable[[Targets], object]:
    ATTEMPTS[function.__name__] = function
    return function


def check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def nothing() -> object:
    raise Refused("nothing there")


def something(found: list[str]) -> object:
    return found or nothing()


def opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True
