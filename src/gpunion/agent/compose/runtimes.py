"""What runs the guests of this machine, opened or only tried."""

from __future__ import annotations

import tempfile

from gpunion.adapters.cuda.hooks import CudaHooks
from gpunion.adapters.runtimes.docker import open_docker
from gpunion.adapters.runtimes.keeper.kept_runtime import KeptRuntime
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.adapters.runtimes.sandbox.bubblewrap import Bubblewrap, find_bubblewrap
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.agent.machine.abilities import TriedRuntime
from gpunion.agent.settings import Settings
from gpunion.ports.gpus import Gpus
from gpunion.ports.runtime import Runtime, RuntimeFault


def runtime_of(settings: Settings, gpus: Gpus) -> KeptRuntime:
    runtime = open_runtime(settings, gpus)
    runtime.allow_places(settings.terms.egress)
    return runtime


def open_runtime(settings: Settings, gpus: Gpus) -> KeptRuntime:
    match settings.runtime:
        case "docker":
            return open_docker(settings.state_dir, image=settings.image)
        case "podman":
            hooks = CudaHooks(gpus.device) if gpus.watched else None
            return open_podman(settings.state_dir, image=settings.image, hooks=hooks)
        case _:
            return SandboxRuntime(
                settings.state_dir,
                allow_unsandboxed=settings.terms.allow_unsandboxed,
                device_of=gpus.device,
            )


def can_sandbox() -> bool:
    """Whether guests would be shut in on this machine, as it is and as this user."""
    return isinstance(find_bubblewrap(), Bubblewrap)


def try_runtime(name: str, image: str | None = None) -> TriedRuntime:
    """Whether guests can be run in it on this machine, as this user. Tried, not looked for."""
    try:
        with tempfile.TemporaryDirectory(prefix="gpunion-try-") as folder:
            match name:
                case "docker":
                    opened: Runtime = open_docker(folder, image=image)
                case "podman":
                    opened = open_podman(folder, image=image)
                case _:
                    opened = SandboxRuntime(folder)
            return TriedRuntime(name=name, described=opened.describe())
    except RuntimeFault as fault:
        trouble, _, mend = str(fault).partition("Next: ")
        return TriedRuntime(name=name, trouble=trouble.strip(), mend=mend)
    except OSError as error:
        mend = "make room for temporary files, or say where there is some: export TMPDIR=DIR"
        return TriedRuntime(name=name, trouble=f"it could not be tried: {error.strerror}", mend=mend)
