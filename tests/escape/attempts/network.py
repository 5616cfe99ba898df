"""The network, and what leads around the door that a guest with a network has."""

from __future__ import annotations

import socket
from pathlib import Path

from .trying import Refused, Targets, attempt, nothing, something

CONNECT_LIMIT_S = 2.0


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
    return something([address for address in host["addresses"] if _reaches((address, host["host_port"]))])


@attempt
def have_a_network_device(host: Targets) -> object:
    return something([name for _, name in socket.if_nameindex() if name != "lo" and _is_up(name)])


@attempt
def listen_to_all_traffic(host: Targets) -> object:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300):
        return "listening"


@attempt
def send_forged_packets(host: Targets) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW):
        return "may send"


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
    return something([name for name in names if _leads(f"CONNECT {name}:{host['host_port']}")])


@attempt
def reach_another_guest_through_the_door(host: Targets) -> object:
    return _through_the_door(f"CONNECT 127.0.0.1:{host['neighbour_port']}")


@attempt
def have_the_doorman_fetch_a_page(host: Targets) -> object:
    return _through_the_door(f"GET http://127.0.0.1:{host['host_port']}/")


@attempt
def reach_the_internet_without_the_door(host: Targets) -> object:
    return _connect(("192.0.2.1", 443))  # an address for documents: nobody has it


def _connect(address: tuple[str, int]) -> object:
    with socket.create_connection(address, CONNECT_LIMIT_S):
        return "connected"


def _through_the_door(request: str) -> object:
    with socket.create_connection(("127.0.0.1", 3128), CONNECT_LIMIT_S) as door:
        door.sendall(f"{request} HTTP/1.1\r\n\r\n".encode())
        status = door.recv(4096).split(b" ")[1:2]
    if status in ([b"403"], [b"405"]):
        nothing()
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
