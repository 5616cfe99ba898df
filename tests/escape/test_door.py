"""The one way out that a guest may have works: without this the refusals beside it would prove nothing."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpunion.ports.runtime import ExitReason
from tests.conftest import require
from tests.escape.conftest import Lab
from tests.real_machine import eventually
from tests.services import ANSWER_LIMIT_S, SYSTEM_PATH

WITH_SBIN = {**os.environ, "PATH": SYSTEM_PATH}
ANSWERS = """
import socket, sys
server = socket.create_server((sys.argv[1], 80))
print("ready", flush=True)
while True: server.accept()
"""
KNOCKS = """
import json, socket, sys
host, port = json.loads(sys.argv[1])
try:
    socket.create_connection((host, int(port)), 2.0)
    print("direct: YES")
except OSError:
    print("direct: no")
door = socket.create_connection(("127.0.0.1", 3128))
door.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n".encode())
print("through the door:", door.recv(4096).split()[1].decode())
"""

# Says what it heard at the place it was given, and after that ends with the hundreds of what it is told.
VISITS = """
import os, socket, sys, time
out = os.environ["GPUNION_OUTPUT_DIR"]
def knock():
    door = socket.create_connection(("127.0.0.1", int(os.environ["GPUNION_PROXY"].rpartition(":")[2])))
    door.sendall(f"CONNECT 127.0.0.1:{sys.argv[1]} HTTP/1.1\\r\\n\\r\\n".encode())
    return door
door = knock()
said = b""
while b"\\r\\n\\r\\nwelcome" not in said: said += door.recv(4096)
open(out + "/heard.part", "wb").write(said.rpartition(b"\\r\\n")[2])
os.rename(out + "/heard.part", out + "/heard")
while not os.path.exists(out + "/again"): time.sleep(0.01)
sys.exit(int(knock().recv(4096).split()[1]) // 100 - 1)
"""


def test_a_guest_with_a_network_reaches_what_the_owner_allows_until_the_owner_changes_it(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
        lab.runtime.allow_places((f"127.0.0.1:{port}",))
        root = lab.start("visitor", "python", "-c", VISITS, str(port), network=True)
        connection, _ = place.accept()
        with connection:
            connection.sendall(b"welcome")
            eventually((root / "output" / "heard").exists)
        assert (root / "output" / "heard").read_bytes() == b"welcome"
        lab.runtime.allow_places(("192.0.2.1:443",))
        (root / "output" / "again").touch()
        assert lab.ended("visitor") == (ExitReason.EXITED, 3), (root / "log.txt").read_text()


@pytest.fixture
def lan() -> Iterator[str]:
    """The address of another machine of the owner's network, where port 80 answers whoever comes."""
    require("netns")
    mark = secrets.token_hex(3)
    name, near, far = f"gpunion-lan-{mark}", f"gpn{mark}a", f"gpn{mark}b"
    third = os.getpid() % 250 + 1  # not that of a test beside this one: workers' numbers are neighbours
    commands = [
        ["netns", "add", name],
        ["link", "add", near, "type", "veth", "peer", "name", far, "netns", name],
        ["addr", "add", f"10.213.{third}.1/24", "dev", near],
        ["link", "set", near, "up"],
        ["-n", name, "addr", "add", f"10.213.{third}.2/24", "dev", far],
        ["-n", name, "link", "set", far, "up"],
    ]
    try:
        for words in commands:
            subprocess.run(["ip", *words], check=True, env=WITH_SBIN)
        answering = ["ip", "netns", "exec", name, sys.executable, "-S", "-c", ANSWERS, f"10.213.{third}.2"]
        with subprocess.Popen(answering, stdout=subprocess.PIPE, env=WITH_SBIN) as machine:
            assert machine.stdout is not None
            machine.stdout.readline()
            try:
                yield f"10.213.{third}.2"
            finally:
                machine.kill()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, env=WITH_SBIN)


def test_the_owners_network_is_out_of_reach_until_it_is_listed(lab: Lab, lan: str) -> None:
    with socket.create_connection((lan, 80), ANSWER_LIMIT_S):  # from the host it can be reached
        pass
    asked = json.dumps([lan, "80"])
    lab.runtime.allow_places(("0.0.0.0/0:80", "data.example:*"))
    root = lab.start("stranger", "python", "-c", KNOCKS, asked, network=True)
    assert lab.ended("stranger") == (ExitReason.EXITED, 0), (root / "log.txt").read_text()
    assert (root / "log.txt").read_text() == "direct: no\nthrough the door: 403\n"
    lab.runtime.allow_places((f"{lan}:80",))
    root = lab.start("friend", "python", "-c", KNOCKS, asked, network=True)
    assert lab.ended("friend") == (ExitReason.EXITED, 0), (root / "log.txt").read_text()
    assert (root / "log.txt").read_text() == "direct: no\nthrough the door: 200\n"
