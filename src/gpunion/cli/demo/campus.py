"""A whole campus as processes of this machine, in one folder. For the demo and for the system tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpunion.agent.compose.coordinator_requests import join
from gpunion.agent.link.joining import JoinRequest, JoinTrouble
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, Gpu
from gpunion.owner_kill import kill_all
from gpunion.owner_kill.guest import guest_dirs, lives, read_keeper, strike
from gpunion.owner_kill.processes import send_signal
from gpunion.sdk.client import Client

START_LIMIT_S = 60.0
STOP_LIMIT_S = 15.0


class CampusTrouble(Exception):
    """Something of the campus did not come up or stay up. Says where its log is."""


class Process(Protocol):
    """What a campus asks of a process it started: as of subprocess.Popen."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def send_signal(self, signum: int) -> None: ...


Spawn = Callable[[list[str], Mapping[str, str], Path], Process]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One lab's machine. Its GPUs are declared: nothing here needs a real one."""

    name: str
    lab: str
    model: str
    memory_gib: int
    speed: float
    gpus: int = 1


def spawn_module(module: list[str], environment: Mapping[str, str], log_file: Path) -> Process:
    """`python -m` these words, with its words in the log file."""
    with log_file.open("ab") as log:
        # A session of its own: Ctrl-C reaches the demo alone, which then tidies up in order.
        return subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


@dataclass(slots=True)
class LocalCampus:
    root: Path
    timing: Mapping[str, float] = field(default_factory=dict)
    unsandboxed: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    spawn: Spawn = spawn_module
    config: Path | None = None  # the coordinator's settings
    _coordinator: Process | None = None
    _agents: dict[str, Process] = field(default_factory=dict)
    _port: int = 0

    # --- coordinator -----------------------------------------------------------------------------

    @property
    def data_dir(self) -> Path:
        return self.root / "coordinator"

    @property
    def vault_dir(self) -> Path:
        return self.root / "vault"

    @property
    def url(self) -> str:
        return (self.data_dir / "address").read_text().strip()

    @property
    def token(self) -> str:
        return (self.data_dir / "admin.token").read_text().strip()

    @property
    def coordinator(self) -> Process:
        assert self._coordinator is not None, "start the coordinator first"
        return self._coordinator

    def client(self) -> Client:
        return Client(self.url, self.token)

    def start_coordinator(self, **environment: str) -> None:
        """May be called again after it was stopped or killed: same data, same port."""
        address = self.data_dir / "address"
        address.unlink(missing_ok=True)  # of one that was killed
        timing = {f"GPUNION_COORDINATOR_TIMING_{k.upper()}": str(v) for k, v in self.timing.items()}
        command = ["gpunion.coordinator", "--data-dir", str(self.data_dir), "--port", str(self._port)]
        command += ["--vault", str(self.vault_dir)]
        command += [] if self.config is None else ["--config", str(self.config)]
        self._coordinator = self._spawn("coordinator", command, {**timing, **environment})
        self._wait(address.exists, self._coordinator, "coordinator")
        self._port = int(self.url.rsplit(":", 1)[1])

    def stop_coordinator(self, signum: int = signal.SIGTERM) -> None:
        if self._coordinator is not None:
            _end(self._coordinator, signum)

    # --- nodes -----------------------------------------------------------------------------------

    def state_dir(self, name: str) -> Path:
        return self.root / name

    def agent(self, name: str) -> Process:
        return self._agents[name]

    def join(self, lab: Lab) -> None:
        token = self.client().make_join_token()["join_token"]
        request = JoinRequest(
            url=self.url,
            join_token=token,
            name=lab.name,
            lab=lab.lab,
            state_dir=self.state_dir(lab.name),
            gpus=tuple(
                Gpu(index=index, model=lab.model, memory_bytes=lab.memory_gib * GIB, speed=lab.speed)
                for index in range(lab.gpus)
            ),
            terms=Terms(allow_unsandboxed=self.unsandboxed),
        )
        try:
            join(request)
        except JoinTrouble as trouble:
            raise CampusTrouble(f"{lab.name} could not join: {trouble}") from trouble

    def start_agent(self, *names: str, **environment: str) -> None:
        """Several come up beside each other."""
        for name in names:
            command = ["gpunion.agent", "--state-dir", str(self.state_dir(name))]
            self._agents[name] = self._spawn(name, command, environment)
        for name in names:
            socket = self.state_dir(name) / "owner.sock"
            self._wait(socket.exists, self._agents[name], name)

    def stop_agent(self, name: str, signum: int = signal.SIGTERM) -> None:
        _end(self._agents[name], signum)

    def lose_power(self, name: str) -> None:
        """Agent and guests gone at once, without a word to anybody: as if the cable was pulled."""
        os.kill(self._agents[name].pid, signal.SIGKILL)
        root = str(self.state_dir(name))
        until_s = time.monotonic() + STOP_LIMIT_S
        while living := [guest for guest in guest_dirs(root) if lives(guest)]:
            for guest in living:
                _pull_the_plug(guest)
            if time.monotonic() > until_s:
                raise CampusTrouble(f"guests of {name} would not die: {living}")
            time.sleep(0.01)
        self._agents[name].wait(STOP_LIMIT_S)

    # --- the end ---------------------------------------------------------------------------------

    def close(self, *, keep_files: bool = False) -> None:
        """Nothing stays: no process, no mount, no file (but the folder, where asked to keep it)."""
        for agent in self._agents.values():
            _end(agent, signal.SIGKILL)
        for name in self._agents:
            kill_all(self.state_dir(name))
        if self._coordinator is not None:
            _end(self._coordinator, signal.SIGTERM)
        if not keep_files:
            shutil.rmtree(self.root, ignore_errors=True)

    def log_of(self, name: str) -> Path:
        return self.root / f"{name}.log"

    def _spawn(self, name: str, module: list[str], environment: Mapping[str, str]) -> Process:
        self.root.mkdir(parents=True, exist_ok=True)
        return self.spawn(module, self._environment(environment), self.log_of(name))

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUNION_")}
        return {**kept, **self.environment, **more}

    def _wait(self, ready: Callable[[], bool], process: Process, name: str) -> None:
        until_s = time.monotonic() + START_LIMIT_S
        while not ready():
            if process.poll() is not None:
                raise CampusTrouble(f"{name} ended at once (exit {process.returncode}):\n{self._tail(name)}")
            if time.monotonic() > until_s:
                raise CampusTrouble(f"{name} did not come up in {START_LIMIT_S:.0f} s:\n{self._tail(name)}")
            time.sleep(0.02)

    def _tail(self, name: str) -> str:
        lines = self.log_of(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])


def _end(process: Process, signum: int) -> None:
    if process.poll() is None:
        process.send_signal(signum)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_LIMIT_S)


def _pull_the_plug(guest_dir: str) -> None:
    """Its keeper goes last, and must not live to tell: it would take the guest's end for a program's own."""
    keeper = read_keeper(guest_dir)
    if keeper is not None:
        send_signal(keeper.pid, keeper.start_ticks, signal.SIGSTOP)
    strike(guest_dir, keeper_too=True)
