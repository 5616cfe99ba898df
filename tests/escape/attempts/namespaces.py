"""Mounts, roots and names that a guest shares with its host."""

from __future__ import annotations

from .trying import SYSCALLS, Targets, attempt, check, libc

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000


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
