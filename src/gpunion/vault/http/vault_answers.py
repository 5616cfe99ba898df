"""What a desk is asked over HTTP, as the coordinator is by `coordinator/routes/vault.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, BinaryIO

from gpunion.limits import EPOCH_MAX
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.job_directories import BATCH_BLOCKS_MAX
from gpunion.vault.tree import HASH_PATTERN

ROOT = "/api/v1/vault"
INTEGER_MAX = 2**53 - 1

Json = dict[str, Any]
# Of a request: the parts of its path that the route names, and its body, a manifest as a file.
Answer = Callable[[VaultDesk, dict[str, str], Any], bytes | Json | None]


class BadRequest(Exception):
    """In words, with the status it is answered by."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def answer_to(method: str, path: str) -> tuple[Answer, dict[str, str]]:
    """And the parts that the path names."""
    for known, pattern, answer in ROUTES:
        found = pattern.fullmatch(path)
        if found and known == method:
            return answer, found.groupdict()
    raise BadRequest(404, "there is nothing of that name here")


def _room(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.check_room()


def _has(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    blocks = _field(body, "blocks", list)
    if len(blocks) > BATCH_BLOCKS_MAX or not all(
        isinstance(name, str) and HASH_PATTERN.fullmatch(name) for name in blocks
    ):
        raise BadRequest(422, "blocks are names of blocks, and not too many of them")
    return {"blocks": sorted(desk.has(blocks, names.get("job")))}


def _put(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.put(names["name"], body, names.get("job"))


def _get(desk: VaultDesk, names: dict[str, str], body: bytes) -> bytes:
    return desk.fetch(names["name"], names.get("job"))


def _doubt(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.doubt(names["name"], names.get("job"))


def _begin(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.begin(names["job"], _number(body, "epoch", most=EPOCH_MAX))


def _begin_copy(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.begin_copy(names["job"], _number(body, "epoch", most=EPOCH_MAX))


def _seal(desk: VaultDesk, names: dict[str, str], body: BinaryIO) -> None:
    desk.seal(names["job"], body)


def _adopt(desk: VaultDesk, names: dict[str, str], body: BinaryIO) -> None:
    desk.adopt(names["job"], body)


def _latest(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    found = desk.latest(names["job"])
    return {"manifests": [] if found is None else [found.decode()]}


def _sealed(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    return {"manifests": [manifest.decode() for manifest in desk.sealed(names["job"])]}


def _hold(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    return {"hold": desk.hold(names["job"], _field(body, "checkpoint_id", str))}


def _renew(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.renew(names["hold"])


def _release(desk: VaultDesk, names: dict[str, str], body: bytes) -> None:
    desk.release(names["hold"])


def _forget(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    try:
        return {"checkpoints": list(desk.forget(names["job"], _number(body, "keep")))}
    except ValueError as error:
        raise BadRequest(422, str(error)) from error


def _collect(desk: VaultDesk, names: dict[str, str], body: bytes) -> Json:
    found = desk.collect_garbage()
    return {"blocks": found.blocks, "stored_bytes": found.stored_bytes}


def _field(body: bytes, name: str, kind: type) -> Any:
    try:
        value = json.loads(body)[name]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRequest(422, f"{name} is missing") from error
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRequest(422, f"{name} is of another kind")
    return value


def _number(body: bytes, name: str, *, most: int = INTEGER_MAX) -> int:
    value: int = _field(body, name, int)
    if not 0 <= value <= most:
        raise BadRequest(422, f"{name} is a small number")
    return value


def _at(method: str, path: str, answer: Answer) -> tuple[str, re.Pattern[str], Answer]:
    parts = {
        "JOB": r"(?P<job>[A-Za-z0-9_.-]{1,128})",
        "NAME": r"(?P<name>[0-9a-f]{64})",
        "HOLD": r"(?P<hold>[0-9a-f]{32})",
    }
    for word, pattern in parts.items():
        path = path.replace(word, pattern)
    return method, re.compile(ROOT + path), answer


ROUTES = [
    _at("GET", "/room", _room),
    _at("POST", "(?:/jobs/JOB)?/has", _has),
    _at("PUT", "(?:/jobs/JOB)?/blocks/NAME", _put),
    _at("GET", "(?:/jobs/JOB)?/blocks/NAME", _get),
    _at("POST", "(?:/jobs/JOB)?/blocks/NAME/doubt", _doubt),
    _at("POST", "/jobs/JOB/begin", _begin),
    _at("POST", "/jobs/JOB/seal", _seal),
    _at("POST", "/jobs/JOB/copies/begin", _begin_copy),
    _at("POST", "/jobs/JOB/copies/seal", _adopt),
    _at("GET", "/jobs/JOB/manifests/latest", _latest),
    _at("GET", "/jobs/JOB/manifests", _sealed),
    _at("POST", "/jobs/JOB/holds", _hold),
    _at("POST", "/holds/HOLD", _renew),
    _at("DELETE", "/holds/HOLD", _release),
    _at("POST", "/jobs/JOB/forget", _forget),
    _at("POST", "/collect", _collect),
]
