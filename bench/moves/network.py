"""A small network of network namespaces on this machine: one bridge, one cable to each. Root only."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LIMIT_S = 30.0
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    address: str  # of this machine on the bridge
    namespaces: dict[str, str]  # host -> the namespace's name

    def enter(self, host: str) -> list[str]:
        """The words before a command that is to run there. Only the network is another."""
        return ["nsenter", f"--net=/run/netns/{self.namespaces[host]}"]


@contextlib.contextmanager
def network(hosts: Iterable[str]) -> Iterator[Network]:
    """Named after this process, so that two may be there at once; gone afterwards, whatever happens."""
    tag = f"gm{os.getpid() % 100_000}"
    bridge, subnet = f"{tag}br", f"10.213.{os.getpid() % 250}"
    namespaces = {host: f"{tag}-{host}" for host in hosts}
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("address", "add", f"{subnet}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, namespace in enumerate(namespaces.values(), start=1):
            _plug_in(namespace, bridge, f"{tag}v{number}", f"{subnet}.{number}/24")
        yield Network(address=f"{subnet}.254", namespaces=namespaces)
    finally:
        for namespace in namespaces.values():
            ip("netns", "delete", namespace, check=False)
        ip("link", "delete", bridge, check=False)


def _plug_in(namespace: str, bridge: str, cable: str, address: str) -> None:
    ip("netns", "add", namespace)
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    ip("link", "set", cable, "master", bridge, "up")
    ip("-netns", namespace, "address", "add", address, "dev", "eth0")
    for device in ("lo", "eth0"):
        ip("-netns", namespace, "link", "set", device, "up")


def ip(*words: str, check: bool = True) -> None:
    environment = {**os.environ, "PATH": PATH}
    answer = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=LIMIT_S, env=environment)
    if check and answer.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {answer.stderr.strip()}")
