"""How a guest is started: as a plan of program, arguments and environment that the keeper carries out.

Inside bubblewrap a guest sees the system's programs and the agent's Python read-only, its own directories
under /gpunion, and nothing else of its host: no homes, no state directory, no other guest, no network.
Nothing of the agent's own environment reaches a guest in either mode.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gpunion.adapters.sandbox import stage
from gpunion.adapters.sandbox.names import HOME_DIR, NOT_BEGUN_FD, TEMPORARY_DIR, WORK_DIR
from gpunion.ports.gpus import GpuDevice
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault

INSIDE = Path("/gpunion")
INSIDE_LIBRARY = INSIDE / "lib"
GUEST_ID = 1000  # the guest's user inside; outside it is the agent's
PROBE_LIMIT_S = 10.0
MEMORY_FILES_MAX_BYTES = 1024**3  # /tmp inside lives in the host's memory

SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# The loader, names and time zones. Not /etc as a whole: it holds the host's secrets.
SYSTEM_SETTINGS = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "ssl/certs",
    "ssl/openssl.cnf",
    "magic",
    "mime.types",
)
GPU_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
PACKAGE_DIR = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubblewrap:
    """A bwrap that was seen working on this machine."""

    program: str
    options: tuple[str, ...]  # those of this version that we use when they are there
    own_user: bool  # guests get a user of their own outside too, since the agent is root


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
    own_user: bool = False


def find_bubblewrap() -> Bubblewrap | None:
    """None when there is no bwrap, or when guests in it could still touch this host.

    That is so when this system does not let it make namespaces, and for a root that cannot give its guests
    another user (see `stage`).
    """
    program = shutil.which("bwrap", path=os.pathsep.join(SYSTEM_PATH))
    if program is None:
        return None
    known = _run([program, "--help"])
    if known is None:
        return None
    options = tuple(option for option in ("--disable-userns", "--size") if option in known)
    is_root = os.geteuid() == 0
    if is_root and not stage.possible():
        return None
    found = Bubblewrap(program=program, options=options, own_user=is_root)
    probe = [program, *_isolation(found), *_system(), "--", "/usr/bin/true"]
    return found if _run(probe, user=stage.GUEST_HOST_ID if is_root else None) is not None else None


def plan_plain(spec: GuestSpec, paths: GuestPaths, devices: tuple[GpuDevice, ...] = ()) -> Plan:
    """No sandbox: the guest sees what the agent's user sees."""
    environment = guest_environment(spec, paths, str(PACKAGE_DIR.parent), sandboxed=False)
    environment |= _named_devices(devices)
    work_dir = str(paths.scratch_dir / WORK_DIR)
    return Plan(argv=spec.command, environment=environment, directory=work_dir)


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
    arguments = [*_isolation(bubblewrap), *_system()]
    for node in _gpu_nodes(spec.gpu_indices, devices):
        arguments += ["--dev-bind-try", node, node]
    readable = [*identity_files(paths.root), *python_places()]
    writable = [
        (paths.checkpoint_dir, inside.checkpoint_dir),
        (paths.control_dir, inside.control_dir),
        (paths.output_dir, inside.output_dir),
        (paths.scratch_dir, inside.scratch_dir),
    ]
    bindings = [word for _, target in readable for word in ("--ro-bind", str(target))]
    bindings += [word for _, target in writable for word in ("--bind", str(target))]
    closing = ["--remount-ro", "/", "--chdir", str(inside.scratch_dir / WORK_DIR), "--clearenv"]
    if any(state_dir.is_relative_to(source) for source, _ in readable):
        closing = ["--tmpfs", str(state_dir), *closing]
    for name, value in environment.items():
        closing += ["--setenv", name, value]
    # Through a shell's exec, so that a program that is not there ends with 127 as it does without a sandbox.
    last_step = f'exec "$@" {NOT_BEGUN_FD}>&-'
    argv = (bubblewrap.program, "/bin/sh", "-c", last_step, "gpunion", *spec.command)
    return Plan(
        argv=argv,
        environment={},
        directory=str(paths.root),
        arguments=tuple(arguments),
        sources=tuple(str(source) for source, _ in [*readable, *writable]),
        bindings=tuple(bindings),
        closing=tuple(closing),
        own_user=bubblewrap.own_user,
    )


def _isolation(bubblewrap: Bubblewrap) -> list[str]:
    words = ["--unshare-all", "--unshare-user", "--uid", str(GUEST_ID), "--gid", str(GUEST_ID)]
    words += ["--hostname", "gpunion", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if "--disable-userns" in bubblewrap.options:
        words.append("--disable-userns")
    words += ["--proc", "/proc", "--dev", "/dev"]
    if "--size" in bubblewrap.options:
        words += ["--size", str(MEMORY_FILES_MAX_BYTES)]
    return [*words, "--tmpfs", "/tmp"]


def _system() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for name in SYSTEM_SETTINGS:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def identity_files(root: Path) -> list[tuple[Path, Path]]:
    """Names for the guest's user and host: the real files name the owner's."""
    texts = {
        "passwd": f"guest:x:{GUEST_ID}:{GUEST_ID}:guest:{INSIDE / 'scratch' / HOME_DIR}:/bin/sh\n",
        "group": f"guest:x:{GUEST_ID}:\n",
        "hosts": "127.0.0.1 localhost gpunion\n::1 localhost\n",
    }
    folder = root / "etc"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii")
    return [(folder / name, Path("/etc", name)) for name in texts]


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


def guest_environment(
    spec: GuestSpec, places: GuestPaths, library: str, *, sandboxed: bool
) -> dict[str, str]:
    """What the guest asked for, then what it cannot change. Nothing is taken from the agent's environment."""
    for name, value in spec.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise RuntimeFault(f"{name!r} cannot be a variable of the environment", temporary=False)
    prefixes = dict.fromkeys([f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", *SYSTEM_PATH])
    asked = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", **spec.environment}
    paths = [library, *filter(None, [spec.environment.get("PYTHONPATH")])]
    return asked | {
        "PATH": os.pathsep.join([*filter(None, [spec.environment.get("PATH")]), *prefixes]),
        "PYTHONPATH": os.pathsep.join(paths),
        "HOME": str(places.scratch_dir / HOME_DIR),
        "TMPDIR": str(places.scratch_dir / TEMPORARY_DIR),
        "USER": "guest",
        "LOGNAME": "guest",
        "BATCH_SYSTEM": "GPUnion",
        "GPUNION_JOB_ID": spec.job_id,
        "GPUNION_RUN_EPOCH": str(spec.epoch),
        "GPUNION_RESUME": "1" if spec.resume else "0",
        "GPUNION_CHECKPOINT_DIR": str(places.checkpoint_dir),
        "GPUNION_CONTROL_DIR": str(places.control_dir),
        "GPUNION_OUTPUT_DIR": str(places.output_dir),
        "CUDA_VISIBLE_DEVICES": _cuda_devices(spec.gpu_indices, sandboxed=sandboxed),
        "NVIDIA_VISIBLE_DEVICES": ",".join(str(index) for index in spec.gpu_indices) or "void",
    }


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


def _run(command: list[str], user: int | None = None) -> str | None:
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            timeout=PROBE_LIMIT_S,
            text=True,
            env={},
            cwd="/",
            check=False,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout + answer.stderr if answer.returncode == 0 else None
