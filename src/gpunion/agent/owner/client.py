"""The owner's side of the agent's socket. Little of the standard library, so that the CLI starts at once."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

SOCKET_NAME = "owner.sock"
ANSWER_LIMIT_BYTES = 4 * 1024**2
# Deciding takes milliseconds, a disk's sync perhaps a second. An agent that is silent for longer hangs.
ANSWER_LIMIT_S = 20.0


class OwnerTrouble(Exception):
    """What happened and what to do next, in words for the owner."""


class AgentNotRunning(OwnerTrouble):
    pass


class AgentHangs(OwnerTrouble):
    pass


class Refused(OwnerTrouble):
    """The agent is there and said no."""


def status(state_dir: str | os.PathLike[str]) -> dict[str, Any]:
    return ask(state_dir, "status")


def pause(state_dir: str | os.PathLike[str], gpus: list[int] | None = None) -> dict[str, Any]:
    """`gpus`, here and below: these alone. None: the whole machine."""
    return ask(state_dir, "pause", gpus=gpus)


def resume(state_dir: str | os.PathLike[str], gpus: list[int] | None = None) -> dict[str, Any]:
    return ask(state_dir, "resume", gpus=gpus)


def reclaim(
    state_dir: str | os.PathLike[str], notice_s: float | None = None, gpus: list[int] | None = None
) -> dict[str, Any]:
    """None: as long a notice as the terms give."""
    return ask(state_dir, "reclaim", notice_s=notice_s, gpus=gpus)


def reclaim_when_safe(state_dir: str | os.PathLike[str], limit_s: float | None = None) -> dict[str, Any]:
    """None: the limit of the terms."""
    return ask(state_dir, "reclaim", when_safe=True, limit_s=limit_s)


def change_terms(state_dir: str | os.PathLike[str], changes: dict[str, str]) -> dict[str, Any]:
    return ask(state_dir, "terms", set=changes)


def replace_terms(state_dir: str | os.PathLike[str], text: str) -> dict[str, Any]:
    return ask(state_dir, "terms", text=text)


def leave(state_dir: str | os.PathLike[str], notice_s: float | None = None) -> dict[str, Any]:
    return ask(state_dir, "leave", notice_s=notice_s)


def kill(state_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """Through the agent. `gpunion.owner_kill.kill_all` needs none."""
    return ask(state_dir, "kill")


def ask(state_dir: str | os.PathLike[str], verb: str, **details: Any) -> dict[str, Any]:
    """One request, one answer: `{"message": ..., "status": {...}}`."""
    request = {"verb": verb, **{name: value for name, value in details.items() if value is not None}}
    try:
        answer = json.loads(_exchange(os.fspath(state_dir), json.dumps(request).encode() + b"\n"))
    except ValueError as error:
        raise OwnerTrouble(
            f"The agent gave no sensible answer ({error}). `gpunion kill` still works."
        ) from error
    if not isinstance(answer, dict) or not answer.get("ok"):
        raise Refused(
            str(answer.get("error", "no reason given")) if isinstance(answer, dict) else "no answer"
        )
    return answer


def _exchange(state_dir: str, request: bytes) -> bytes:
    try:
        folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError as error:
        raise _of_another(state_dir) from error
    except OSError as error:
        raise AgentNotRunning(
            f"There is no agent's state directory {state_dir} ({error.strerror}).\n"
            "Next: gpunion join, or name the right one with --state-dir or GPUNION_STATE_DIR."
        ) from error
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_LIMIT_S)
            # Through the descriptor: a socket's own path may have at most 107 bytes.
            connection.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
            connection.sendall(request)
            return _read_all(connection)
    except PermissionError as error:
        raise _of_another(state_dir) from error
    except TimeoutError as error:
        raise AgentHangs(
            f"The agent did not answer within {ANSWER_LIMIT_S:.0f} s. `gpunion kill` still works."
        ) from error
    except OSError as error:
        raise AgentNotRunning(
            f"The agent is not running (no answer in {state_dir}); `gpunion kill` still works.\n"
            "Next: gpunion agent, to start it."
        ) from error
    finally:
        os.close(folder)


def _of_another(state_dir: str) -> OwnerTrouble:
    return OwnerTrouble(
        f"The agent in {state_dir} belongs to another user. Next: run this as that user, or as root."
    )


def _read_all(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    while piece := connection.recv(65536):
        parts.append(piece)
        size_bytes += len(piece)
        if size_bytes > ANSWER_LIMIT_BYTES:
            raise ValueError("it does not end")
    return b"".join(parts)
