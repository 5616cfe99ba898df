"""How a guest is started: as a plan of program, arguments and environment that the keeper carries out.

Inside bubblewrap a guest sees the system's programs and the agent's Python read-only, its own directories
under /gpunion, and nothing else of its host: no homes, no state directory, no other guest, no network.
Nothing of the agent's own environment reaches a guest in either mode.
"""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gpunion.adapters.runtimes.keeper.guest_dir import PACKAGE_DIR
from gpunion.adapters.runtimes.keeper.names import (
    GATE_FD,
    HOME_DIR,
    NOT_BEGUN_FD,
    SOCKETS_DIR,
    TEMPORARY_DIR,
    WORK_DIR,
)
from gpunion.adapters.runtimes.keeper.proxy_socket import proxy_variables
from gpunion.adapters.runtimes.sandbox.bubblewrap import GUEST_ID, SYSTEM_PATH, Bubblewrap, isolation, system
from gpunion.ports.gpus import GpuDevice
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault

INSIDE = Path("/gpunion")
INSIDE_LIBRARY = INSIDE / "lib"
INSIDE_PACKAGES = INSIDE / "packages"
DEFAULTS = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
SHELLS = ("/bin/bash", "/bin/sh")
GPU_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")

# As a shell writes them; of ours alone.
OWN_VARIABLE = re.compile(r"\$(?:\{(GPUNION_[A-Z_]+)\}|(GPUNION_[A-Z_]+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the keeper executes. `arguments` are bubblewrap's own; none: the program runs plainly.

    `sources` are bound one by one as `bindings` says: an option and a target each, in turn.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    arguments: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    program_dir: str = ""  # of bubblewrap, where the guest's user would not reach it otherwise


def plan_plain(spec: GuestSpec, paths: GuestPaths, devices: tuple[GpuDevice, ...] = ()) -> Plan:
    """No sandbox: the guest sees what the agent's user sees."""
    environment = guest_environment(spec, paths, str(PACKAGE_DIR.parent), sandboxed=False)
    environment |= _named_devices(devices)
    work_dir = str(paths.scratch_dir / WORK_DIR)
    return Plan(argv=with_places(spec.argv, paths), environment=environment, directory=work_dir)


def plan_sandboxed(
    spec: GuestSpec,
    paths: GuestPaths,
    state_dir: Path,
    bubblewrap: Bubblewrap,
    devices: tuple[GpuDevice, ...] = (),
) -> Plan:
    inside = GuestPaths(
        root=INSIDE,
        checkpoint_dir=INSIDE / paths.checkpoint_dir.name,
        control_dir=INSIDE / paths.control_dir.name,
        output_dir=INSIDE / paths.output_dir.name,
        scratch_dir=INSIDE / paths.scratch_dir.name,
        log_file=INSIDE / paths.log_file.name,
    )
    environment = guest_environment(spec, inside, str(INSIDE_LIBRARY), sandboxed=True)
    environment |= _named_devices(devices)
    arguments = [*isolation(bubblewrap.options, spec.memory_bytes), *system()]
    for node in _gpu_nodes(spec.gpu_indices, devices):
        arguments += ["--dev-bind-try", node, node]
    readable = [*identity_files(paths.root), *python_places(), *package_places(spec)]
    writable = [
        (paths.checkpoint_dir, inside.checkpoint_dir),
        (paths.control_dir, inside.control_dir),
        (paths.output_dir, inside.output_dir),
        (paths.scratch_dir, inside.scratch_dir),
    ]
    bindings = [word for _, target in readable for word in ("--ro-bind", str(target))]
    bindings += [word for _, target in writable for word in ("--bind", str(target))]
    closing = [
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
        "--chdir",
        str(inside.scratch_dir / WORK_DIR),
        "--clearenv",
    ]
    if any(state_dir.is_relative_to(source) for source, _ in readable):
        closing = ["--tmpfs", str(state_dir), *closing]
    for name, value in environment.items():
        closing += ["--setenv", name, value]
    # Through a shell's exec, so that a program that is not there ends with 127 as it does without a sandbox.
    last_step = f'exec "$@" {NOT_BEGUN_FD}>&-'
    if spec.network:
        last_step = f"read -r _ <&{GATE_FD}; {last_step} {GATE_FD}<&-"
    argv = (bubblewrap.program, "/bin/sh", "-c", last_step, "gpunion", *with_places(spec.argv, inside))
    return Plan(
        argv=argv,
        environment={},
        directory=str(paths.root),
        arguments=tuple(arguments),
        sources=tuple(str(source) for source, _ in [*readable, *writable]),
        bindings=tuple(bindings),
        closing=tuple(closing),
        program_dir=bubblewrap.folder,
    )


def with_places(command: tuple[str, ...], places: GuestPaths) -> tuple[str, ...]:
    """The guest's own folders, where a command names them by our variables: only its machine knows them.
    Other variables are the program's business, as no shell stands in between."""
    known = _named(places)
    return tuple(
        OWN_VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), word) for word in command
    )


def _named(places: GuestPaths) -> dict[str, str]:
    return {
        "GPUNION_CHECKPOINT_DIR": str(places.checkpoint_dir),
        "GPUNION_CONTROL_DIR": str(places.control_dir),
        "GPUNION_OUTPUT_DIR": str(places.output_dir),
        "GPUNION_SESSION_DIR": str(places.scratch_dir / SOCKETS_DIR),
    }


def identity_files(root: Path) -> list[tuple[Path, Path]]:
    """Names for the guest's user and host: the real files name the owner's."""
    texts = {
        # The second one only so that an sshd of the guest's starts: it looks for a user of that name.
        "passwd": f"guest:x:{GUEST_ID}:{GUEST_ID}:guest:{INSIDE / 'scratch' / HOME_DIR}:{_shell()}\n"
        "sshd:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
        "group": f"guest:x:{GUEST_ID}:\n",
        "hosts": "127.0.0.1 localhost gpunion\n::1 localhost\n",
    }
    folder = root / "etc"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii")
    return [(folder / name, Path("/etc", name)) for name in texts]


def _shell() -> str:
    return next((shell for shell in SHELLS if os.path.exists(shell)), SHELLS[-1])


def python_places() -> list[tuple[Path, Path]]:
    """The Python the agent runs under, and this package for `gpunion.sdk.job`."""
    found = [(PACKAGE_DIR, INSIDE_LIBRARY / PACKAGE_DIR.name)]
    for prefix in sorted({Path(sys.prefix), Path(sys.base_prefix)}):
        if prefix.is_relative_to("/usr"):
            continue
        if prefix in (Path("/"), Path.home()):
            raise RuntimeFault(
                f"guests would see all of {prefix}: run the agent from a venv", temporary=False
            )
        found.append((prefix, prefix))
    return found


def package_places(spec: GuestSpec) -> list[tuple[Path, Path]]:
    """What its lockfile asked for, installed beforehand."""
    return [] if spec.packages is None else [(Path(spec.packages), INSIDE_PACKAGES)]


def guest_environment(
    spec: GuestSpec, places: GuestPaths, library: str, *, sandboxed: bool
) -> dict[str, str]:
    """What the guest asked for, then what it cannot change. Nothing is taken from the agent's environment."""
    for name, value in spec.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise RuntimeFault(f"{name!r} cannot be a variable of the environment", temporary=False)
    prefixes = dict.fromkeys([f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", *SYSTEM_PATH])
    way_out = proxy_variables() if spec.network else {}
    asked = {**usual_variables(spec), **way_out, **spec.environment}
    packages = str(INSIDE_PACKAGES) if sandboxed and spec.packages else spec.packages
    paths = [library, *filter(None, [packages, spec.environment.get("PYTHONPATH")])]
    programs = [f"{packages}/bin"] if packages else []
    return asked | {
        "PATH": os.pathsep.join([*filter(None, [spec.environment.get("PATH")]), *programs, *prefixes]),
        "PYTHONPATH": os.pathsep.join(paths),
        "HOME": str(places.scratch_dir / HOME_DIR),
        "TMPDIR": str(places.scratch_dir / TEMPORARY_DIR),
        "USER": "guest",
        "LOGNAME": "guest",
        "BATCH_SYSTEM": "GPUnion",
        "GPUNION_JOB_ID": spec.job_id,
        "GPUNION_RUN_EPOCH": str(spec.epoch),
        "GPUNION_RESUME": "1" if spec.resume else "0",
        **_named(places),
        "CUDA_VISIBLE_DEVICES": _cuda_devices(spec.gpu_indices, sandboxed=sandboxed),
        "NVIDIA_VISIBLE_DEVICES": ",".join(str(index) for index in spec.gpu_indices) or "void",
    }


def usual_variables(spec: GuestSpec) -> dict[str, str]:
    """Unless the job, or its image, says otherwise. Libraries that compute in threads start one for each CPU
    of the machine, and a guest that has fewer than that spends its time waiting for its own threads."""
    return {**DEFAULTS, "OMP_NUM_THREADS": str(max(1, math.ceil(spec.cpus)))}


def _gpu_nodes(indices: tuple[int, ...], devices: tuple[GpuDevice, ...]) -> list[str]:
    """Exactly what the granted GPUs need. A card's number is not always its file's: the driver knows both."""
    if not indices:
        return []
    seen = {device.index: device.nodes for device in devices}
    cards = [node for index in indices for node in seen.get(index, (f"/dev/nvidia{index}",))]
    return [*dict.fromkeys(cards), *(f"/dev/{name}" for name in GPU_DEVICES)]


def _named_devices(devices: tuple[GpuDevice, ...]) -> dict[str, str]:
    """By name rather than by number: CUDA counts its own way, the fastest first."""
    names = ",".join(device.uuid for device in devices)
    return {"CUDA_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": names} if names else {}


def _cuda_devices(indices: tuple[int, ...], *, sandboxed: bool) -> str:
    """CUDA counts the devices it can open: where only the granted ones are there, they are 0, 1, ..."""
    if sandboxed and any(os.path.exists(f"/dev/nvidia{index}") for index in indices):
        return ",".join(str(number) for number in range(len(indices)))
    return ",".join(str(index) for index in indices)
