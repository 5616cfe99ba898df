"""A stand-in for NVIDIA's binding: what its cards say lies in a file that a test may change at any time.

`{"gpus": [{"uuid": ..., "model": ...}], "hang": true}`: a card's key that is missing is refused as not
supported, `"lost": true` makes every question about it fail, `"slices": [...]` cuts it into MIG devices.
"""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import Any

STATE_VARIABLE = "GPUNION_TEST_NVML_STATE"
NVML_TEMPERATURE_GPU = 0
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_VOLATILE_ECC = 0
nvmlEventTypeXidCriticalError = 8
HANG_S = 3600.0
PROCESS_BYTES = 1024**3  # that each process of a folder has taken


class NVMLError(Exception):
    pass


_heard: list[tuple[str, int]] = []


def _state() -> dict[str, Any]:
    with open(os.environ[STATE_VARIABLE], encoding="utf-8") as file:
        state: dict[str, Any] = json.load(file)
    if state.get("hang"):
        time.sleep(HANG_S)
    if state.get("die"):
        os._exit(9)
    if state.get("no_driver"):
        raise NVMLError("Driver Not Loaded")
    return state


def _gpu(handle: Any) -> dict[str, Any]:
    gpu = _state()["gpus"][handle[0]]
    if gpu.get("lost"):
        raise NVMLError("GPU is lost")
    return gpu["slices"][handle[1]] if len(handle) == 2 else gpu


def _field(handle: Any, name: str) -> Any:
    gpu = _gpu(handle)
    if name not in gpu:
        raise NVMLError("Not Supported")
    return gpu[name]


def nvmlInit() -> None:
    _state()


def nvmlShutdown() -> None:
    return


def nvmlDeviceGetCount() -> int:
    return len(_state()["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> tuple[int, ...]:
    if _state()["gpus"][index].get("unplugged"):
        raise NVMLError("GPU is lost")
    return (index,)


def nvmlDeviceGetMinorNumber(handle: Any) -> int:
    return int(_field(handle, "minor"))


def nvmlDeviceGetUUID(handle: Any) -> bytes:
    return str(_field(handle, "uuid")).encode()


def nvmlDeviceGetName(handle: Any) -> str:
    return str(_field(handle, "model"))


def nvmlDeviceGetMemoryInfo(handle: Any) -> SimpleNamespace:
    folder = _gpu(handle).get("processes_dir")
    living = sum(os.path.exists(f"/proc/{name}") for name in os.listdir(folder)) if folder else 0
    used_bytes = _field(handle, "used_bytes") + living * PROCESS_BYTES
    return SimpleNamespace(total=_field(handle, "memory_bytes"), used=used_bytes)


def nvmlDeviceGetUtilizationRates(handle: Any) -> SimpleNamespace:
    return SimpleNamespace(gpu=_field(handle, "utilisation"))


def nvmlDeviceGetCudaComputeCapability(handle: Any) -> tuple[int, int]:
    major, minor = _field(handle, "capability")
    return major, minor


def nvmlSystemGetDriverVersion() -> bytes:
    return str(_of_system("driver")).encode()


def nvmlSystemGetCudaDriverVersion_v2() -> int:
    return int(_of_system("cuda"))


def _of_system(name: str) -> Any:
    if name not in _state():
        raise NVMLError("Not Supported")
    return _state()[name]


def nvmlDeviceGetTemperature(handle: Any, sensor: int) -> int:
    return int(_field(handle, "temperature"))


def nvmlDeviceGetPowerUsage(handle: Any) -> int:
    return int(_field(handle, "milliwatts"))


def nvmlDeviceGetTotalEccErrors(handle: Any, kind: int, counter: int) -> int:
    return int(_field(handle, "ecc"))


def nvmlDeviceGetComputeRunningProcesses(handle: Any) -> list[SimpleNamespace]:
    """Of a list, or of a folder in which every process that "computes" leaves a file with its number."""
    folder = _gpu(handle).get("processes_dir")
    listed = (
        [[int(name), PROCESS_BYTES] for name in os.listdir(folder)] if folder else _field(handle, "processes")
    )
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in listed]


def nvmlDeviceGetMigMode(handle: Any) -> tuple[int, int]:
    mode = 1 if _field(handle, "slices") else 0
    return mode, mode


def nvmlDeviceGetMaxMigDeviceCount(handle: Any) -> int:
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(handle: Any, index: int) -> tuple[int, int]:
    if index >= len(_gpu(handle)["slices"]):
        raise NVMLError("Not Found")
    return handle[0], index


def nvmlDeviceGetGpuInstanceId(handle: Any) -> int:
    return int(_field(handle, "gpu_instance"))


def nvmlDeviceGetComputeInstanceId(handle: Any) -> int:
    return int(_field(handle, "compute_instance"))


def nvmlEventSetCreate() -> object:
    _heard.clear()
    return object()


def nvmlDeviceRegisterEvents(handle: Any, kinds: int, events: object) -> None:
    _field(handle, "xids")


def nvmlEventSetWait_v2(events: object, timeout_ms: int) -> SimpleNamespace:
    for number, gpu in enumerate(_state()["gpus"]):
        for order, xid in enumerate(gpu.get("xids", ())):
            if (f"{number}/{order}", xid) not in _heard:
                _heard.append((f"{number}/{order}", xid))
                return SimpleNamespace(device=(number,), eventData=xid)
    raise NVMLError("Timeout")
