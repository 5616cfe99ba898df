"""Files of the host, of the agent and of another guest."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from .trying import Targets, attempt, opens, something


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
    return something(os.listdir(host["state_dir"]))


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
    return something([name for name in os.listdir("/dev/shm") if name == host["shared_memory"]])


@attempt
def reach_the_container_engine(host: Targets) -> object:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect("/var/run/docker.sock")
    return "connected"


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
        elif opens(path, os.O_WRONLY):
            found.append(path)
    return something(found)
