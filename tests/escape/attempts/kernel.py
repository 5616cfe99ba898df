"""Devices, the kernel's own files and calls, and privileges."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .trying import SYSCALLS, Targets, attempt, check, libc, nothing, opens, something


@attempt
def make_a_device(host: Targets) -> object:
    os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0))
    return "made"


@attempt
def open_a_disk_or_memory_of_the_host(host: Targets) -> object:
    found = [
        name for name in os.listdir("/dev") if name.startswith(("sd", "vd", "nvme", "mem", "kmsg", "kvm"))
    ]
    return something([name for name in found if opens(f"/dev/{name}", os.O_RDONLY)])


@attempt
def open_a_gpu_that_was_not_granted(host: Targets) -> object:
    return something([name for name in os.listdir("/dev") if name.startswith("nvidia")])


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
    return something([place for place in places if opens(f"/proc/sys/{place}", os.O_WRONLY)])


@attempt
def open_kernel_triggers_for_writing(host: Targets) -> object:
    places = (
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/proc/irq/default_smp_affinity",
    )
    return something([place for place in places if opens(place, os.O_WRONLY)])


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
    return something([path for path in found if opens(path, os.O_WRONLY)])


@attempt
def read_the_kernels_memory(host: Targets) -> object:
    with open("/proc/kcore", "rb") as file:
        return file.read(4) or nothing()


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
        return nothing()
    return os.getuid()


@attempt
def have_any_capability(host: Targets) -> object:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return something([name for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb") if int(status[name], 16)])


@attempt
def gain_privileges_by_executing(host: Targets) -> object:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return nothing() if status["NoNewPrivs"].strip() == "1" else "setuid programs would work"


@attempt
def take_the_processor_for_itself(host: Targets) -> object:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "real time"


@attempt
def be_spared_when_memory_runs_out(host: Targets) -> object:
    Path("/proc/self/oom_score_adj").write_text("-1000")  # its own process's
    return "spared"
