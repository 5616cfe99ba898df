"""The part of NVIDIA's driver library that moves a process's GPU memory to host memory and back.

Only what is needed of it, called as it is: no package has to be installed where the driver is.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

LIBRARY = "libcuda.so.1"
# Every argument structure of these calls has this size, and zeros in it mean "as usual".
ARGUMENTS_BYTES = 64
# The first driver with these calls, in the driver's own counting (CUDA 12.8, driver 570).
FIRST_VERSION = 12_080
NOT_SUPPORTED = 801
NOT_INITIALIZED = 3

SENTENCES = {
    1: "the driver says the request is not valid",
    NOT_INITIALIZED: "it does not use CUDA, or not yet",
    100: "the driver sees no GPU",
    201: "its CUDA context is not valid",
    304: "the operating system did not let the driver do it (is the agent allowed to trace the guest?)",
    401: "its CUDA is in another state than needed",
    600: "its GPU work did not come to rest in time",
    NOT_SUPPORTED: "the driver does not support it for this program (MIG, MPS, managed or shared memory?)",
    800: "the driver does not permit it",
    999: "the driver gives no reason",
}


class State(IntEnum):
    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3


class CudaTrouble(Exception):
    """Why the driver did not do it, in words."""

    def __init__(self, words: str, code: int = 0) -> None:
        super().__init__(words)
        self.code = code


class Library:
    """Calls block for as long as the driver takes: only to be used in a process that may be killed."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        version = ctypes.c_int(0)
        self._call("cuDriverGetVersion", ctypes.byref(version))
        self.version = version.value
        if self.version < FIRST_VERSION or not hasattr(cuda, "cuCheckpointProcessLock"):
            raise CudaTrouble(
                f"the NVIDIA driver is too old (CUDA {self.version // 1000}.{self.version % 1000 // 10}); "
                "moving GPU memory to host memory needs driver 570 or newer"
            )
        self._call("cuInit", 0)

    def state(self, pid: int) -> State:
        state = ctypes.c_int(-1)
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(state))
        return State(state.value)

    def lock(self, pid: int, limit_ms: int) -> None:
        """New GPU work of the process waits from here on, and what it has begun is finished."""
        arguments = (ctypes.c_uint32 * (ARGUMENTS_BYTES // 4))(limit_ms)
        self._call("cuCheckpointProcessLock", pid, arguments)

    def checkpoint(self, pid: int) -> None:
        """A locked process's GPU memory goes to host memory; it has nothing on the GPU afterwards."""
        self._call("cuCheckpointProcessCheckpoint", pid, _nothing())

    def restore(self, pid: int) -> None:
        self._call("cuCheckpointProcessRestore", pid, _nothing())

    def unlock(self, pid: int) -> None:
        self._call("cuCheckpointProcessUnlock", pid, _nothing())

    def _call(self, name: str, *arguments: Any) -> None:
        code = int(getattr(self._cuda, name)(*arguments))
        if code != 0:
            raise CudaTrouble(SENTENCES.get(code, f"the driver answers with error {code}"), code)


def open_library() -> Library:
    try:
        return Library(ctypes.CDLL(LIBRARY))
    except OSError as error:
        raise CudaTrouble(f"there is no NVIDIA driver here ({error})") from error


def _nothing() -> Any:
    return (ctypes.c_uint64 * (ARGUMENTS_BYTES // 8))()
