"""What a guest tries, from inside: `python attempts.py targets.json` writes what came of it to results.json.

Runs in the guest with the standard library alone. Nothing here changes the host even where it gets through:
files of the kernel are opened and never written, and system calls get arguments that can do nothing, in an
order that asks for permission first. An attempt returns what it got hold of, or raises what refused it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONNECT_LIMIT_S = 2.0
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
PTRACE_ATTACH = 16
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


# --- files of the host ---------------------------------------------------------------------------


@attempt
def read_a_file_of_the_owner(host: Targets) -> object:
    return Path(host["secret_file"]).read_text()


@attempt
def read_a_file_of_the_owner_through_the_first_process(host: Targets) -> object:
    return Path("/proc/1/root" + host["secret_file"]).read_text()


@attempt
def read_the_hosts_passwords(host: Targets) -> object:
    return Path("/etc/shadow").read_text()


@attempt
def list_the_agents_state(host: Targets) -> object:
    return _something(os.listdir(host["state_dir"]))


@attempt
def read_another_guests_output(host: Targets) -> object:
    return Path(host["neighbour_file"]).read_text()


@attempt
def write_into_the_system(host: Targets) -> object:
    return _writable("/usr/bin/env", "/usr/lib", "/etc", "/")


@attempt
def write_into_the_job_library(host: Targets) -> object:
    import gpunion

    return _writable(gpunion.__file__, os.path.dirname(gpunion.__file__))


@attempt
def write_into_the_pythons_packages(host: Targets) -> object:
    return _writable(sys.prefix, os.path.dirname(json.__file__))


@attempt
def see_shared_memory_of_the_host(host: Targets) -> object:
    return _something([name for name in os.listdir("/dev/shm") if name == host["shared_memory"]])


@attempt
def reach_the_container_engine(host: Targets) -> object:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect("/var/run/docker.sock")
    return "connected"


# --- devices and the kernel ----------------------------------------------------------------------


@attempt
def make_a_device(host: Targets) -> object:
    os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0))
    return "made"


@attempt
def open_a_disk_or_memory_of_the_host(host: Targets) -> object:
    found = [
        name for name in os.listdir("/dev") if name.startswith(("sd", "vd", "nvme", "mem", "kmsg", "kvm"))
    ]
    return _something([name for name in found if _opens(f"/dev/{name}", os.O_RDONLY)])


@attempt
def open_a_gpu_that_was_not_granted(host: Targets) -> object:
    return _something([name for name in os.listdir("/dev") if name.startswith("nvidia")])


@attempt
def change_a_device_of_the_host(host: Targets) -> object:
    os.chmod("/dev/null", 0o666)
    return "changed"


@attempt
def open_kernel_settings_for_writing(host: Targets) -> object:
    # Opened only. Nothing is ever written here.
    places = (
        "kernel/core_pattern",
        "kernel/modprobe",
        "vm/overcommit_memory",
        "kernel/panic",
        "net/ipv4/ip_forward",
    )
    return _something([place for place in places if _opens(f"/proc/sys/{place}", os.O_WRONLY)])


@attempt
def open_kernel_triggers_for_writing(host: Targets) -> object:
    places = (
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/proc/irq/default_smp_affinity",
    )
    return _something([place for place in places if _opens(place, os.O_WRONLY)])


@attempt
def open_cgroup_files_for_writing(host: Targets) -> object:
    names = {
        "cgroup.procs",
        "release_agent",
        "memory.max",
        "memory.limit_in_bytes",
        "pids.max",
        "cgroup.kill",
    }
    found = [
        os.path.join(folder, name)
        for folder, _, files in os.walk("/sys/fs/cgroup")
        for name in files
        if name in names
    ]
    return _something([path for path in found if _opens(path, os.O_WRONLY)])


@attempt
def read_the_kernels_memory(host: Targets) -> object:
    with open("/proc/kcore", "rb") as file:
        return file.read(4) or _nothing()


@attempt
def load_a_module(host: Targets) -> object:
    return check(libc.syscall(SYSCALLS["init_module"], None, 0, None))


@attempt
def load_another_kernel(host: Targets) -> object:
    return check(libc.syscall(SYSCALLS["kexec_load"], 0, 0, None, 0xFFFF))


@attempt
def reboot(host: Targets) -> object:
    return check(libc.syscall(SYSCALLS["reboot"], 0, 0, 0, None))  # wrong magic: refused, or without effect


@attempt
def reach_the_ports_of_the_hardware(host: Targets) -> object:
    return check(libc.syscall(SYSCALLS["iopl"], 3))


@attempt
def become_root(host: Targets) -> object:
    try:
        os.setuid(0)
    except OSError:  # also "invalid": there is no such user in its namespace
        return _nothing()
    return os.getuid()


@attempt
def have_any_capability(host: Targets) -> object:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return _something([name for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb") if int(status[name], 16)])


@attempt
def gain_privileges_by_executing(host: Targets) -> object:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return _nothing() if status["NoNewPrivs"].strip() == "1" else "setuid programs would work"


@attempt
def take_the_processor_for_itself(host: Targets) -> object:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "real time"


@attempt
def be_spared_when_memory_runs_out(host: Targets) -> object:
    Path("/proc/self/oom_score_adj").write_text("-1000")  # its own process's
    return "spared"


# --- namespaces ----------------------------------------------------------------------------------


@attempt
def mount_a_file_system(host: Targets) -> object:
    return check(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))


@attempt
def mount_the_hosts_processes(host: Targets) -> object:
    return check(libc.mount(b"proc", b"/proc", b"proc", 0, None))


@attempt
def make_its_system_writable(host: Targets) -> object:
    return check(libc.mount(b"none", b"/", None, 32 | 4096, None))  # remount, bind


@attempt
def change_its_root(host: Targets) -> object:
    return check(libc.syscall(SYSCALLS["pivot_root"], None, None))


@attempt
def make_a_user_namespace(host: Targets) -> object:
    return check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))


@attempt
def rename_the_host(host: Targets) -> object:
    return check(libc.sethostname(b"", -1))


# --- processes of others -------------------------------------------------------------------------


@attempt
def see_processes_of_the_host(host: Targets) -> object:
    return _processes_with(host["process_token"])


@attempt
def see_processes_of_another_guest(host: Targets) -> object:
    return _processes_with(host["neighbour_token"])


@attempt
def signal_a_process_of_the_host(host: Targets) -> object:
    os.kill(host["process_pid"], 0)
    return _nothing() if not _processes_with_or_none(host["process_token"]) else "reached"


@attempt
def trace_a_process_of_the_host(host: Targets) -> object:
    return check(libc.ptrace(PTRACE_ATTACH, host["process_pid"], None, None))


@attempt
def trace_the_first_process(host: Targets) -> object:
    """The engine's or the sandbox's: its own shell may be traced, another user's may not."""
    if os.stat("/proc/1").st_uid == os.getuid():
        _nothing()
    return check(libc.ptrace(PTRACE_ATTACH, 1, None, None))


@attempt
def read_memory_of_a_process_of_the_host(host: Targets) -> object:
    with open(f"/proc/{host['process_pid']}/mem", "rb") as file:
        if host["process_token"].encode() not in Path(f"/proc/{host['process_pid']}/cmdline").read_bytes():
            _nothing()  # another process has that number in here
        return bool(file)


# --- network -------------------------------------------------------------------------------------


@attempt
def reach_the_hosts_loopback(host: Targets) -> object:
    return _connect(("127.0.0.1", host["host_port"]))


@attempt
def reach_the_hosts_abstract_socket(host: Targets) -> object:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect("\0" + host["abstract_socket"])
    return "connected"


@attempt
def reach_another_guest(host: Targets) -> object:
    return _connect(("127.0.0.1", host["neighbour_port"]))


@attempt
def reach_an_address_of_the_host(host: Targets) -> object:
    return _something([address for address in host["addresses"] if _reaches((address, host["host_port"]))])


@attempt
def have_a_network_device(host: Targets) -> object:
    return _something([name for _, name in socket.if_nameindex() if name != "lo" and _is_up(name)])


@attempt
def listen_to_all_traffic(host: Targets) -> object:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300):
        return "listening"


@attempt
def send_forged_packets(host: Targets) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW):
        return "may send"


# --- through the door that a guest with a network has -------------------------------------------


@attempt
def reach_a_port_beside_the_allowed_one(host: Targets) -> object:
    return _through_the_door(f"CONNECT 127.0.0.1:{host['host_port']}")


@attempt
def reach_the_host_by_another_name(host: Targets) -> object:
    names = (
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::]",
    )
    return _something([name for name in names if _leads(f"CONNECT {name}:{host['host_port']}")])


@attempt
def reach_another_guest_through_the_door(host: Targets) -> object:
    return _through_the_door(f"CONNECT 127.0.0.1:{host['neighbour_port']}")


@attempt
def have_the_doorman_fetch_a_page(host: Targets) -> object:
    return _through_the_door(f"GET http://127.0.0.1:{host['host_port']}/")


@attempt
def reach_the_internet_without_the_door(host: Targets) -> object:
    return _connect(("192.0.2.1", 443))  # an address for documents: nobody has it


# --- limits --------------------------------------------------------------------------------------


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


# --- what they share -----------------------------------------------------------------------------


def _nothing() -> object:
    raise Refused("nothing there")


def _something(found: list[str]) -> object:
    return found or _nothing()


def _opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True


def _writable(*paths: str) -> object:
    found = []
    for path in paths:
        if os.path.isdir(path):
            try:
                os.mkdir(os.path.join(path, "escaped"))
                os.rmdir(os.path.join(path, "escaped"))
                found.append(path)
            except OSError:
                continue
        elif _opens(path, os.O_WRONLY):
            found.append(path)
    return _something(found)


def _processes_with(token: str) -> object:
    return _processes_with_or_none(token) or _nothing()


def _processes_with_or_none(token: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                if token.encode() in Path("/proc", name, "cmdline").read_bytes():
                    found.append(name)
            except OSError:
                continue
    return found


def _connect(address: tuple[str, int]) -> object:
    with socket.create_connection(address, CONNECT_LIMIT_S):
        return "connected"


def _through_the_door(request: str) -> object:
    with socket.create_connection(("127.0.0.1", 3128), CONNECT_LIMIT_S) as door:
        door.sendall(f"{request} HTTP/1.1\r\n\r\n".encode())
        status = door.recv(4096).split(b" ")[1:2]
    if status in ([b"403"], [b"405"]):
        _nothing()
    return f"the doorman said {status}"


def _leads(request: str) -> bool:
    try:
        return bool(_through_the_door(request))
    except Refused:
        return False


def _reaches(address: tuple[str, int]) -> bool:
    try:
        return bool(_connect(address))
    except OSError:
        return False


def _is_up(name: str) -> bool:
    try:
        return int(Path("/sys/class/net", name, "flags").read_text(), 16) & 1 == 1
    except OSError:
        return True


def outcome(try_it: Callable[[Targets], object], host: Targets) -> str:
    try:
        return f"ESCAPED: {try_it(host)!r}"
    except Refused as refusal:
        return f"refused: {refusal}"
    except OSError as error:
        # Past the question whether it may: only the arguments were wrong.
        past = error.errno in (errno.EFAULT, errno.EINVAL, errno.EBADF)
        return f"{'ESCAPED' if past else 'refused'}: {error}"


def main(targets: str) -> None:
    host = json.loads(Path(targets).read_text())
    results = {name: outcome(try_it, host) for name, try_it in ATTEMPTS.items()}
    place = Path(os.environ["GPUNION_OUTPUT_DIR"], "results.json")
    place.write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
