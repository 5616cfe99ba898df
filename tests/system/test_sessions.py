"""A notebook's server in a guest, reached from its user's own machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.sdk.errors import ApiProblem
from gpunion.sdk.streams import Streams
from tests.builders.notebook import Notebook, on_loopback
from tests.system.scene import PATIENT, Scene

# A server of notebooks without the program that looks after a session: it says by itself that it is ready.
SERVER = """
printf '{"ready": true, "level": "files"}' > $GPUNION_CONTROL_DIR/session.json
exec python3 -m jupyter_server --no-browser --ServerApp.sock=$GPUNION_SESSION_DIR/lab.sock \
  --ServerApp.allow_remote_access=True --KernelManager.transport=ipc \
  --IdentityProvider.token=$GPUNION_SESSION_TOKEN
"""
JOB = {
    "command": ["/bin/sh", "-c", SERVER],
    "resources": {"gpus": 1, "cpus": 0.1, "memory": "1GiB"},
}


@pytest.fixture
def two_labs(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus", timing=PATIENT)
    try:
        yield opened
    finally:
        opened.close()


def a_free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Opened:
    """`gpunion notebook` of a session that lives, as a process."""

    def __init__(self, scene: Scene, name: str) -> None:
        campus = scene.campus
        self.environment = {**os.environ, "GPUNION_URL": campus.url, "GPUNION_TOKEN": campus.token}
        self.words = [sys.executable, "-m", "gpunion", "notebook", "--name", name, "--json"]
        self.words += ["--port", str(a_free_port())]  # several workers of a test run share the loopback
        self.process = subprocess.Popen(self.words, env=self.environment, stdout=subprocess.PIPE, text=True)
        self.url = self._until("ready")["url"]

    def _until(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told["type"] == kind:
                return told
        raise AssertionError(f"it ended before it was {kind}")

    @property
    def host(self) -> str:
        return str(self.url.split("/")[2])

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    def close(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@pytest.mark.requires("bwrap", "jupyterlab")
def test_a_notebook_is_at_the_same_address_after_its_owner_has_killed_it(two_labs: Scene) -> None:
    with two_labs.campus.client() as client:
        client.start_session("course", job=JOB)
        opened = Opened(two_labs, "course")
        try:
            session = client.session("course")
            notebook = Notebook(opened.host, on_loopback(opened.port), session["token"])
            kernel = notebook.kernel()
            assert kernel.run("print(6 * 7)") == "42\n"
            assert notebook.ask("GET", "/api").json["version"]

            owner_client.kill(two_labs.campus.state_dir(session["node"]))
            # What is asked meanwhile waits, and is answered by the server on the next machine.
            assert notebook.ask("GET", "/api/kernels").json == []
            assert client.session("course")["node"] != session["node"]
            assert client.session("course")["token"] == session["token"]
            assert notebook.kernel().run("print('again')") == "again\n"
        finally:
            assert opened.close() == 130


@pytest.mark.requires("bwrap", "jupyterlab")
def test_its_page_outlives_the_coordinator_and_the_agent_and_is_opened_once(two_labs: Scene) -> None:
    campus = two_labs.campus
    with campus.client() as client:
        client.start_session("course", job=JOB)
        opened = Opened(two_labs, "course")
        session = client.session("course")
        with pytest.raises(ApiProblem, match="a session called course lives already"):
            client.start_session("course", job=JOB)
    try:
        notebook = Notebook(opened.host, on_loopback(opened.port), session["token"])
        kernel = notebook.kernel()
        kernel.run("kept = 41")

        campus.stop_coordinator(signal.SIGKILL)
        campus.start_coordinator()
        assert notebook.ask("GET", "/api").json["version"]  # waits for it, and for its machine

        campus.stop_agent(session["node"], signal.SIGKILL)
        campus.start_agent(session["node"])
        assert notebook.kernel(kernel.id).run("print(kept + 1)") == "42\n"

        again = subprocess.run(opened.words, env=opened.environment, capture_output=True, text=True)
        assert "is served at" in again.stderr
        assert json.loads(again.stdout.splitlines()[-1])["url"] == opened.url
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            port = str(taken.getsockname()[1])
            words = [*opened.words, "--port", port]  # the last one counts
            refused = subprocess.run(words, env=opened.environment, capture_output=True, text=True)
        assert refused.returncode == 5
        assert f"port {port} of this machine cannot be listened at" in refused.stderr

        other = Notebook(opened.host, on_loopback(opened.port), "0" * 48)
        assert other.ask("GET", "/api/kernels").status == 403
        with pytest.raises(ApiProblem, match="token is not known"):
            asyncio.run(Streams(campus.url, "another").to_session("course", "lab", patience_s=0.0))
    finally:
        opened.close()


@pytest.mark.requires("bwrap", "jupyterlab")
def test_a_page_that_sends_a_change_without_the_servers_own_sign_is_refused(two_labs: Scene) -> None:
    """The forwarder puts nothing in: what JupyterLab checks, it checks as if it were here."""
    with two_labs.campus.client() as client:
        client.start_session("course", job=JOB)
        opened = Opened(two_labs, "course")
        try:
            token = client.session("course")["token"]
            page = Notebook(opened.host, on_loopback(opened.port))
            cookie = page.ask("GET", f"/?token={token}").cookies
            assert page.ask("GET", "/api/kernels", None, {"Cookie": cookie}).status == 200
            kernels = page.ask("POST", "/api/kernels", b"{}", {"Cookie": cookie})
            assert kernels.status == 403
            assert b"_xsrf" in kernels.body
            assert page.ask("GET", "/api/kernels").status == 403
        finally:
            opened.close()
