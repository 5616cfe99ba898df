"""An engine's command line, as far as we use it. The keeper imports this too: standard library only.

The command line and not the HTTP interface, for one code path over both engines: Podman needs no service
running for it, and works without root the same way.
"""

from __future__ import annotations

import json
import os
import subprocess
import time

CALL_LIMIT_S = 60.0  # an engine under load; one that is silent for longer is as good as gone
REMOVE_TRIES = 50
REMOVE_PAUSE_S = 0.2
# Asked about one image, Podman reads others that share a layer with it, and gives up over one that somebody
# else makes or removes in that moment. What is damaged for good is told after so many tries.
IN_BETWEEN_WORDS = ("locating item named",)
IN_BETWEEN_TRIES = 10
IN_BETWEEN_PAUSE_S = 0.2
WORDS_MAX = 400  # of an engine's complaint that are passed on

# What an engine's client needs to find its engine. Nothing else of the agent's environment reaches it.
KEPT_VARIABLES = (
    "HOME",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",  # without it a rootless Podman gives its containers no cgroups
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
)
# Podman looks for runc and its network tools there, and a service's PATH often lacks them.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What the two engines say when there is no such container or image.
ABSENT_WORDS = ("no such container", "no such object", "no container with name", "no such image", "not known")
NO_FILE_WORDS = ("could not find the file", "no such file", "could not be found on container")


class EngineTrouble(Exception):
    """The engine did not do it. `absent`: it answered, and what was named is not there. `in_between`: it may
    well do it a moment later."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.absent = any(word in words.lower() for word in ABSENT_WORDS)
        self.no_such_file = any(word in words.lower() for word in NO_FILE_WORDS)
        self.in_between = any(word in words.lower() for word in IN_BETWEEN_WORDS)


class EngineGone(EngineTrouble):
    """The engine does not answer at all."""


class ContainerState:
    """What the engine knows of a container."""

    __slots__ = ("error", "exit_code", "id", "out_of_memory", "pid", "running")

    def __init__(self, record: dict[str, object]) -> None:
        state = record["State"]
        if not isinstance(state, dict):
            raise EngineTrouble("the engine's answer has no state")
        self.id = str(record["Id"])
        self.pid = int(state.get("Pid") or 0)
        self.running = bool(state.get("Running"))
        self.exit_code = int(state.get("ExitCode") or 0)
        self.out_of_memory = bool(state.get("OOMKilled"))
        self.error = str(state.get("Error") or "")


class Engine:
    """`program` is how its client is called, with the options every call has."""

    def __init__(self, name: str, program: list[str], gone_words: tuple[str, ...] = ()) -> None:
        self.name = name
        self.program = program
        self._gone_words = gone_words

    def record(self) -> dict[str, object]:
        return {"name": self.name, "program": self.program, "gone_words": list(self._gone_words)}

    @classmethod
    def of(cls, record: object) -> Engine:
        if not isinstance(record, dict):
            raise ValueError("launch.json names no engine")
        return cls(str(record["name"]), list(record["program"]), tuple(record["gone_words"]))

    def call(self, *words: str, given: bytes | None = None, limit_s: float = CALL_LIMIT_S) -> str:
        """What the client printed. Raises EngineTrouble with the engine's own words."""
        for _ in range(IN_BETWEEN_TRIES - 1):
            try:
                return self._call_once(words, given, limit_s)
            except EngineTrouble as trouble:
                if not trouble.in_between:
                    raise
            time.sleep(IN_BETWEEN_PAUSE_S)
        return self._call_once(words, given, limit_s)

    def _call_once(self, words: tuple[str, ...], given: bytes | None, limit_s: float) -> str:
        try:
            answer = subprocess.run(
                [*self.program, *words],
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                capture_output=True,
                timeout=limit_s,
                env=client_environment(),
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EngineGone(f"{self.name} did not answer within {limit_s:.0f} s") from error
        except OSError as error:
            raise EngineGone(f"{self.program[0]} cannot be run: {error.strerror}") from error
        if answer.returncode == 0:
            return answer.stdout.decode(errors="replace").strip()
        words_said = complaint(answer.stderr.decode(errors="replace"))
        told = words_said or f"{self.name} {words[0]} ended with {answer.returncode}"
        gone = answer.returncode < 0 or any(word in told.lower() for word in self._gone_words)
        raise EngineGone(told) if gone else EngineTrouble(told)

    def state_of(self, container: str) -> ContainerState:
        found = json.loads(self.call("inspect", "--type", "container", container))
        return ContainerState(found[0])

    def remove(self, container: str) -> None:
        """End and forget a container; returns when it is gone. One that is not there is as good."""
        words = ["rm", "--force", "--volumes", *(["--time", "0"] if self.name == "podman" else [])]
        for tries_left in reversed(range(REMOVE_TRIES)):
            try:
                self.call(*words, container)
                return
            except EngineTrouble as trouble:
                if trouble.absent:
                    return
                if isinstance(trouble, EngineGone) or not tries_left:
                    raise
            time.sleep(REMOVE_PAUSE_S)  # its guardian is removing it just now


def complaint(said: str) -> str:
    """Without the warnings that a client gives at every call, where it says anything else."""
    lines = said.strip().splitlines()
    grave = [line for line in lines if "level=warning" not in line]
    return "\n".join(grave or lines)[-WORDS_MAX:]


def client_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", **kept}
