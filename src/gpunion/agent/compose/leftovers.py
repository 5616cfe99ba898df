"""What a runtime keeps for an agent outside its state directory, found and removed."""

from __future__ import annotations

import asyncio

from gpunion.adapters.declared_gpus import DeclaredGpus
from gpunion.adapters.runtimes.containers.request import RUN_LABEL
from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime
from gpunion.adapters.runtimes.keeper import cgroups
from gpunion.agent.compose.images import shelf_of
from gpunion.agent.compose.runtimes import open_runtime
from gpunion.agent.machine.abilities import Traces
from gpunion.agent.settings import Settings
from gpunion.ports.images import ImageFault
from gpunion.ports.runtime import ExitReason, Runtime, RuntimeFault


def traces_of(settings: Settings) -> Traces:
    try:
        runtime = open_runtime(settings, DeclaredGpus(()))
        if not isinstance(runtime, ContainerRuntime):
            return Traces()
        loaded = tuple(kept.ref for kept in shelf_of(settings, runtime).kept())
        return Traces(containers=runtime.containers(), images=loaded, host_image=runtime.host_image())
    except RuntimeFault as fault:
        return Traces(trouble=unknown_traces(settings.runtime, str(fault)))


def unknown_traces(runtime: str, fault: str) -> str:
    """For a receipt: an engine that does not answer may have more of this agent than anybody can say."""
    if runtime == "sandbox":
        return fault
    said = fault.partition(" Next: ")[0].rstrip(".")
    return (
        f"what {runtime} may have of it ({said}); when it answers: "
        f"{runtime} ps --all --filter label={RUN_LABEL}, and {runtime} rm --force for each"
    )


def remove_traces(settings: Settings) -> list[str]:
    """End and remove every guest and what was loaded for them; returns what could not be done."""
    try:
        runtime = open_runtime(settings, DeclaredGpus(()))
        asyncio.run(_remove_guests(runtime))
        cgroups.remove_top()
        if isinstance(runtime, ContainerRuntime):
            for container in runtime.containers():
                runtime.remove_container(container)
            shelf_of(settings, runtime).clear()
            runtime.remove_host_image()
    except RuntimeFault as fault:
        return [unknown_traces(settings.runtime, str(fault))]
    except ImageFault as fault:
        return [str(fault)]
    return []


async def _remove_guests(runtime: Runtime) -> None:
    for guest in await runtime.guests():
        await runtime.kill(guest.run_id, ExitReason.STOPPED)
        await runtime.remove(guest.run_id)
