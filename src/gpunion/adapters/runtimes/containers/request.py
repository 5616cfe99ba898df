"""What an engine is asked to make: one guest's container, shut in as far as the engine can.

What is on this machine comes in as values, so the request for any machine can be
looked at in a test.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpunion.adapters.runtimes.containers.entry import DOORS_DIR, ENTER
from gpunion.adapters.runtimes.containers.gpus import GpuWay, gpu_words
from gpunion.adapters.runtimes.sandbox.launch_plan import INSIDE, INSIDE_LIBRARY, with_places
from gpunion.ports.runtime import GuestPaths, GuestSpec

MEMORY_FILES_MAX_BYTES = 1024**3  # /tmp and /dev/shm inside count against the guest's memory
RUN_LABEL = "org.gpunion.run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confines:
    """What holds for every guest of one engine on one machine."""

    engine_words: tuple[str, ...]  # how users inside become users of the host, and what else is its own
    gpus: GpuWay
    cpus_max: float
    open_files_max: int
    processes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One container: its image and name, and what of the host it sees beside its own directories."""

    name: str
    image: str
    program: tuple[str, ...]
    readable: tuple[tuple[Path, Path], ...]
    hidden: tuple[Path, ...] = field(default=())  # directories under those that it must not see


def create_words(
    spec: GuestSpec, paths: GuestPaths, request: Request, confines: Confines, user: str
) -> list[str]:
    """The words after `docker` or `podman`. `user`: "uid:gid" inside."""
    words = ["create", "--pull", "never", "--name", request.name, "--label", f"{RUN_LABEL}={spec.run_id}"]
    words += ["--user", user, *confines.engine_words, *_isolation()]
    words += _limits(spec, confines) + gpu_words(confines.gpus, spec.gpu_indices)
    for source, target in request.readable:
        words += ["--mount", _mount(source, target, readonly=True)]
    for hidden in request.hidden:
        words += ["--tmpfs", f"{hidden}:ro,nosuid,nodev,noexec,size=4k"]
    for path in (paths.checkpoint_dir, paths.control_dir, paths.output_dir, paths.scratch_dir):
        words += ["--mount", _mount(path, INSIDE / path.name, readonly=False)]
    words += ["--mount", _mount(paths.root / DOORS_DIR, INSIDE / DOORS_DIR, readonly=True)]
    inside = replace(
        paths,
        checkpoint_dir=INSIDE / paths.checkpoint_dir.name,
        control_dir=INSIDE / paths.control_dir.name,
        output_dir=INSIDE / paths.output_dir.name,
        scratch_dir=INSIDE / paths.scratch_dir.name,
    )
    words += ["--workdir", str(INSIDE), "--entrypoint", "/bin/sh"]
    return [*words, request.image, str(INSIDE / DOORS_DIR / ENTER), *with_places(request.program, inside)]


def library_place(package_dir: Path) -> tuple[Path, Path]:
    """`gpunion.sdk.job`, for a guest in any image."""
    return package_dir, INSIDE_LIBRARY / package_dir.name


def _isolation() -> list[str]:
    """The engine's own profile for system calls stays on: nothing here says otherwise."""
    return [
        *("--network", "none", "--ipc", "private", "--cgroupns", "private", "--hostname", "gpunion"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--log-driver", "none", "--restart", "no", "--stop-timeout", "1"),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={MEMORY_FILES_MAX_BYTES},mode=1777"),
        *("--shm-size", str(MEMORY_FILES_MAX_BYTES)),
    ]


def _limits(spec: GuestSpec, confines: Confines) -> list[str]:
    words = ["--pids-limit", str(confines.processes_max)]
    if spec.memory_bytes > 0:  # without swap: a guest that thrashes hurts its host
        words += ["--memory", str(spec.memory_bytes), "--memory-swap", str(spec.memory_bytes)]
    if spec.cpus > 0:
        words += ["--cpus", f"{min(spec.cpus, confines.cpus_max):.2f}"]
    # Stated, since an engine's default may be more than it is allowed to give.
    for name, value in (("nofile", confines.open_files_max), ("nproc", confines.processes_max)):
        words += ["--ulimit", f"{name}={value}:{value}"]
    return [*words, "--ulimit", "core=0:0"]


def _mount(source: Path, target: Path, *, readonly: bool) -> str:
    """The engines read this as a line of CSV, so a path may hold a comma."""
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if readonly else [])]
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
