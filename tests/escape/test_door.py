"""The one way out that a guest may have works: without this the refusals beside it would prove nothing."""

from __future__ import annotations

import socket

from gpunion.ports.runtime import ExitReason
from tests.escape.conftest import Lab, eventually

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
