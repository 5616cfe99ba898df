"""The driver's words as plain values. Runs in the child process only: any call here may never return.

Every field is asked for by itself and left out where the driver refuses it: consumer cards know no ECC,
slices no temperature, containers no process list. Only a GPU that does not answer at all is called gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpunion.adapters.nvml.opened import Openers
from gpunion.adapters.nvml.slices import slice_nodes

Reading = dict[str, Any]

# More GPUs than any machine has, more slices than any card can be cut into: a driver that says so is wrong.
GPUS_MAX = 64
SLICES_MAX = 16
XIDS_MAX = 32
# The driver's way to say "not known" for a process's memory.
NOT_AVAILABLE = 2**64 - 1


class Driver:
    """One initialised NVML. `nvml` is the binding's module, or what a test puts in its place."""

    def __init__(self, nvml: Any, openers: Openers, *, trusts_pids: bool) -> None:
        self._nvml = nvml
        self._openers = openers
        self._trusts_pids = trusts_pids
        self._xids: dict[str, list[int]] = {}
        self._events: Any = None
        nvml.nvmlInit()
        self._listen()

    def close(self) -> None:
        self._try(self._nvml.nvmlShutdown)

    def look(self) -> list[Reading]:
        """Every GPU and slice, in the driver's order."""
        self._hear()
        readings: list[Reading] = []
        for number in range(min(self._nvml.nvmlDeviceGetCount(), GPUS_MAX)):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(number)
            except self._nvml.NVMLError as error:
                readings.append({"gone": str(error)})
                continue
            slices = self._slices(handle)
            if slices:
                readings += [self._slice(handle, piece) for piece in slices]
            else:
                readings.append(self._whole(handle))
        return readings

    def _whole(self, handle: Any) -> Reading:
        minor = self._try(self._nvml.nvmlDeviceGetMinorNumber, handle)
        node = None if minor is None else f"/dev/nvidia{minor}"
        return self._of(handle, handle) | {"nodes": [] if node is None else [node]}

    def _slice(self, parent: Any, handle: Any) -> Reading:
        minor = self._try(self._nvml.nvmlDeviceGetMinorNumber, parent)
        gpu_instance = self._try(self._nvml.nvmlDeviceGetGpuInstanceId, handle)
        compute_instance = self._try(self._nvml.nvmlDeviceGetComputeInstanceId, handle)
        nodes = slice_nodes(minor, gpu_instance, compute_instance)
        card_memory = self._try(self._nvml.nvmlDeviceGetMemoryInfo, parent)
        return self._of(parent, handle) | {
            "nodes": nodes,
            "card_bytes": getattr(card_memory, "total", None),
            "card_uuid": _text(self._try(self._nvml.nvmlDeviceGetUUID, parent)),
        }

    def _of(self, card: Any, handle: Any) -> Reading:
        """`card` is the whole GPU: heat, power and faults are the card's even where a slice is asked for."""
        nvml, ask = self._nvml, self._try
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        usage = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        capability = ask(nvml.nvmlDeviceGetCudaComputeCapability, card)
        milliwatts = ask(nvml.nvmlDeviceGetPowerUsage, card)
        card_uuid = _text(ask(nvml.nvmlDeviceGetUUID, card))
        reading: Reading = {
            "uuid": _text(ask(nvml.nvmlDeviceGetUUID, handle)),
            "model": _text(ask(nvml.nvmlDeviceGetName, handle) or ask(nvml.nvmlDeviceGetName, card)),
            "memory_bytes": getattr(memory, "total", None),
            "memory_used_bytes": getattr(memory, "used", None),
            "utilisation": None if usage is None else usage.gpu / 100.0,
            "temperature_c": ask(nvml.nvmlDeviceGetTemperature, card, nvml.NVML_TEMPERATURE_GPU),
            "power_w": None if milliwatts is None else milliwatts / 1000.0,
            "driver": _text(ask(nvml.nvmlSystemGetDriverVersion)),
            "cuda": _cuda(ask(nvml.nvmlSystemGetCudaDriverVersion_v2)),
            "compute_capability": None if capability is None else ".".join(map(str, capability)),
            "ecc_uncorrected": ask(
                nvml.nvmlDeviceGetTotalEccErrors,
                card,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            "xids": self._xids.get(card_uuid, []),
        }
        reading["processes"] = self._processes(card, handle)
        if not reading["uuid"]:
            reading["gone"] = self._why_gone(handle)
        return reading

    def _processes(self, card: Any, handle: Any) -> list[list[int | None]] | None:
        if not self._trusts_pids:
            # In a namespace of its own the driver's numbers are somebody else's processes.
            minor = self._try(self._nvml.nvmlDeviceGetMinorNumber, card)
            return None if minor is None else [[pid, None] for pid in self._openers.of(minor)]
        listed = self._try(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if listed is None:
            return None
        return [[process.pid, _memory(process.usedGpuMemory)] for process in listed]

    def _slices(self, handle: Any) -> list[Any]:
        mode = self._try(self._nvml.nvmlDeviceGetMigMode, handle)
        if not mode or not mode[0]:
            return []
        count = min(self._try(self._nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0, SLICES_MAX)
        found = (self._try(self._nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, n) for n in range(count))
        return [piece for piece in found if piece is not None]

    def _why_gone(self, handle: Any) -> str:
        try:
            self._nvml.nvmlDeviceGetUUID(handle)
        except self._nvml.NVMLError as error:
            return str(error)
        return "it has no name"

    # --- faults ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        nvml = self._nvml
        self._events = self._try(nvml.nvmlEventSetCreate)
        for number in range(min(nvml.nvmlDeviceGetCount(), GPUS_MAX)) if self._events is not None else ():
            handle = self._try(nvml.nvmlDeviceGetHandleByIndex, number)
            if handle is not None:
                kind = nvml.nvmlEventTypeXidCriticalError
                self._try(nvml.nvmlDeviceRegisterEvents, handle, kind, self._events)

    def _hear(self) -> None:
        """Faults that were reported since the last look; waits for none."""
        for _ in range(XIDS_MAX if self._events is not None else 0):
            event = self._try(self._nvml.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                return
            uuid = _text(self._try(self._nvml.nvmlDeviceGetUUID, event.device))
            heard = self._xids.setdefault(uuid, [])
            heard.append(int(event.eventData))
            del heard[:-XIDS_MAX]

    def _try(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where the driver or this version of its library has none."""
        try:
            return question(*arguments)
        except (self._nvml.NVMLError, AttributeError, TypeError):
            return None


def _text(value: Any) -> str:
    """Older bindings answer in bytes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def _cuda(number: Any) -> str:
    """12040 is 12.4: a thousand for each major version, ten for each minor one."""
    return f"{number // 1000}.{number % 1000 // 10}" if isinstance(number, int) and number > 0 else ""


def _memory(value: Any) -> int | None:
    return None if value is None or value == NOT_AVAILABLE else int(value)
