"""JupyterLab's server as a child: how it is started, whether it answers, what it is asked."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpunion.sdk.session.places import Places
from gpunion.sdk.session.server import BACK_FROM
from gpunion.sdk.session.server import MODULE as SERVER_EXTENSION

SOCKET = "lab.sock"
ANSWER_LIMIT_S = 5.0
ANSWER_MAX_BYTES = 4 * 1024 * 1024
END_LIMIT_S = 5.0
SHELL = "/bin/bash"  # a dump refuses what opens /dev/tty by itself, as dash does
PATH_MAX_BYTES = 100  # of 107; Jupyter binds by the path it is given


class NoLab(Exception):
    """JupyterLab is not there, or does not answer."""


class Lab:
    def __init__(self, places: Places, environment: Mapping[str, str]) -> None:
        if importlib.util.find_spec("jupyterlab") is None:
            raise NoLab(
                "JupyterLab is not installed here: name an --environment or an --image that has jupyterlab,"
                " ipykernel and cloudpickle (docs/sessions.md has a recipe for both)"
            )
        self.saves_variables = importlib.util.find_spec("cloudpickle") is not None
        self._places = places
        self._socket = places.sockets / SOCKET
        self._environment = dict(environment)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def start(self, back_from: Path | None) -> None:
        self._socket.unlink(missing_ok=True)
        configuration = write_configuration(self._places, self._socket_name)
        environment = self._environment | _environment(self._places)
        if back_from is not None:
            environment[BACK_FROM] = str(back_from)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", f"--config={configuration}"],
            # Kernels that nobody gave a folder begin where their server does.
            cwd=self._places.files if self._fits else self._places.sockets,
            env=environment,
            stdin=subprocess.DEVNULL,
        )

    @property
    def _socket_name(self) -> str:
        return str(self._socket) if self._fits else self._socket.name

    @property
    def _fits(self) -> bool:
        return len(os.fsencode(self._socket)) <= PATH_MAX_BYTES

    def ended(self) -> int | None:
        return None if self._child is None else self._child.poll()

    def answers(self) -> bool:
        """Its log says that it runs also where it listens nowhere: only an answer counts."""
        try:
            return "version" in self.ask("GET", "/api")
        except NoLab:
            return False

    def ask(
        self, method: str, path: str, body: object = None, limit_s: float = ANSWER_LIMIT_S
    ) -> dict[str, Any]:
        connection = _Connection(self._socket, limit_s)
        try:
            headers = {"Authorization": f"token {self._places.token}", "Content-Type": "application/json"}
            text = None if body is None else json.dumps(body)
            connection.request(method, path, body=text, headers=headers)
            answer = connection.getresponse()
            said = answer.read(ANSWER_MAX_BYTES)
            if answer.status != 200:
                raise NoLab(f"it answered {answer.status}: {said[:200].decode(errors='replace')}")
            told = json.loads(said)
        except (OSError, ValueError, http.client.HTTPException) as trouble:
            raise NoLab(f"it does not answer: {trouble or type(trouble).__name__}") from trouble
        finally:
            connection.close()
        if not isinstance(told, dict):
            raise NoLab("it answered something else")
        return told

    def end(self) -> None:
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class _Connection(http.client.HTTPConnection):
    """Over a Unix socket whose path may be long."""

    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


def write_configuration(places: Places, socket_name: str) -> Path:
    """Files, not words of the command: the token stays out of the list of processes."""
    terminals = os.access(SHELL, os.X_OK)
    words: dict[str, object] = {
        "ServerApp": {
            "sock": socket_name,
            "base_url": "/",
            "root_dir": str(places.files),
            "open_browser": False,
            "allow_remote_access": True,  # over a Unix socket too, else it refuses every host name
            "quit_button": False,  # a session is ended from outside, with its files kept
            "jpserver_extensions": {SERVER_EXTENSION: True},
            "terminals_enabled": terminals,
            "terminado_settings": {"shell_command": [SHELL]},
            "allow_root": True,  # where an image's guest is root, it is one of its own namespace
            "websocket_ping_interval": 0,  # a guest that was frozen would close what its page still has open
            "log_level": "WARN",
        },
        "FileContentsManager": {"delete_to_trash": False},
        # What listens on TCP inside a guest and has a connection keeps it from being dumped.
        "KernelManager": {"transport": "ipc"},
        "LabApp": {
            "news_url": None,
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "extension_manager": "readonly",
        },
    }
    folder = places.own / "jupyter"
    (folder / "labconfig").mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(folder / "labconfig" / "default_setting_overrides.json", OVERRIDES)
    profile = places.own / "ipython" / "profile_default"
    profile.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A history on disk is a database that is read-only after a move: SQLite sees another file there.
    _write(profile / "ipython_kernel_config.json", {"HistoryManager": {"hist_file": ":memory:"}})
    configuration = folder / "session_config.json"
    _write(configuration, words)
    return configuration


OVERRIDES = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": False,
    }
}


def _environment(places: Places) -> dict[str, str]:
    own = {
        "JUPYTER_TOKEN": places.token,
        "JUPYTER_CONFIG_DIR": str(places.own / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(places.runtime),
        "JUPYTERLAB_SETTINGS_DIR": str(places.kept / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(places.kept / "workspaces"),
        "IPYTHONDIR": str(places.own / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    if os.access(SHELL, os.X_OK):
        own["SHELL"] = SHELL
    share = _share()
    if share is not None:
        own["JUPYTERLAB_DIR"] = str(share / "share" / "jupyter" / "lab")
        own["JUPYTER_PATH"] = str(share / "share" / "jupyter")
        own["JUPYTER_CONFIG_PATH"] = str(share / "etc" / "jupyter")
    return own


def _share() -> Path | None:
    """Packages that were installed into a folder of their own have their pages and settings there. None:
    they are where Jupyter looks by itself."""
    if (Path(sys.prefix) / "share" / "jupyter" / "lab").is_dir():
        return None
    found = importlib.util.find_spec("jupyterlab")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent.parent
    places = (folder, *folder.parents)
    return next((place for place in places[:5] if (place / "share" / "jupyter" / "lab").is_dir()), None)


def _write(path: Path, content: object) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    fresh.rename(path)


def clear_runtime(places: Places) -> None:
    """Sockets and files of kernels that ended with the server before."""
    with contextlib.suppress(OSError):
        shutil.rmtree(places.runtime)
    places.runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
