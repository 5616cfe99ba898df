"""The campus's vault over HTTP. Calls block, from any number of threads; broken connections are mended."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, TypeVar

import httpx

from gpunion.tls import believing
from gpunion.vault.http.large_bodies import LineBroken, LineHangs, Lines
from gpunion.vault.interfaces import FAULT_WORDS, UNAVAILABLE_WORDS
from gpunion.vault.job_directories import BATCH_BLOCKS_MAX
from gpunion.vault.locations import Place
from gpunion.vault.manifest import (
    KEEP_AT_LEAST,
    Garbage,
    NotYours,
    VaultFault,
    VaultOutOfReach,
    VaultUnavailable,
)

T = TypeVar("T")
ROUTES = "/api/v1/vault"
# Without a byte taken or given. Sealing a large checkpoint and collecting garbage are silent for longer.
SILENCE_LIMIT_S = 60.0
SLOW_LIMIT_S = 180.0
CONNECT_LIMIT_S = 10.0
# A cable that is plugged in again, a coordinator that starts again: the upload goes on from the same block.
TRIES = 4
WAIT_S = 0.5
HANGS = (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout, LineHangs)
NOT_KNOWN = (404, 405)
SERVERS_TROUBLE = 500
FAULTS: dict[str, type[VaultFault]] = {
    **{word: fault for fault, (_, word) in FAULT_WORDS.items()},
    UNAVAILABLE_WORDS[1]: VaultUnavailable,
    "not_your_job": NotYours,
}


class HttpVaultDesk:
    """Implements `vault.interfaces.VaultDesk`."""

    def __init__(
        self,
        url: str,
        credential: str,
        *,
        silence_limit_s: float = SILENCE_LIMIT_S,
        connect_limit_s: float = CONNECT_LIMIT_S,
        tries: int = TRIES,
        name: str = "the campus's vault",
        certificate: str = "",
    ) -> None:
        """`certificate`: the only one that is believed there. Else those that the system believes.
        VaultUnavailable where it or the address makes no sense."""
        self._name = name
        self._url = url
        self._silence_limit_s = silence_limit_s
        headers = {"Authorization": f"Bearer {credential}"}
        self._tries = tries
        connect_limit_s = min(silence_limit_s, connect_limit_s)
        try:
            security = believing(certificate) if certificate else httpx.create_ssl_context(trust_env=False)
            self._client = httpx.Client(
                base_url=f"{url}{ROUTES}",
                headers=headers,
                timeout=httpx.Timeout(silence_limit_s, connect=connect_limit_s),
                trust_env=False,
                verify=security,
            )
            self._lines = Lines(
                f"{url}{ROUTES}",
                headers,
                connect_limit_s=connect_limit_s,
                silence_limit_s=silence_limit_s,
                security=security,
            )
        except (ssl.SSLError, httpx.InvalidURL, ValueError) as error:  # as another machine says of itself
            raise VaultUnavailable(
                f"{self.describe()} cannot be asked: its address or certificate makes no sense ({error})"
            ) from error

    def describe(self) -> str:
        return f"{self._name} at {self._url}"

    def check_room(self) -> None:
        with suppress(_NoSuchQuestion):  # an older one, which cannot tell
            self._ask("GET", "/room", timeout=SLOW_LIMIT_S)

    def begin(self, job_id: str, epoch: int) -> None:
        self._ask("POST", f"/jobs/{job_id}/begin", json={"epoch": epoch})

    def has(self, names: Collection[str], job_id: str | None = None) -> set[str]:
        found: set[str] = set()
        for batch in _batches(names):
            answer = self._ask("POST", f"{_owner(job_id)}/has", json={"blocks": batch})
            found |= set(answer.json()["blocks"])
        return found

    def put(self, name: str, stored: bytes, job_id: str | None = None) -> None:
        self._ask("PUT", f"{_owner(job_id)}/blocks/{name}", content=stored)

    def fetch(self, name: str, job_id: str | None = None) -> bytes:
        return self._fetched(f"{_owner(job_id)}/blocks/{name}")

    def doubt(self, name: str, job_id: str | None = None) -> None:
        self._ask("POST", f"{_owner(job_id)}/blocks/{name}/doubt")

    def seal(self, job_id: str, manifest: bytes | BinaryIO) -> None:
        self._ask("POST", f"/jobs/{job_id}/seal", content=manifest, timeout=SLOW_LIMIT_S)

    def begin_copy(self, job_id: str, epoch: int) -> None:
        self._ask("POST", f"/jobs/{job_id}/copies/begin", json={"epoch": epoch})

    def adopt(self, job_id: str, manifest: bytes | BinaryIO) -> None:
        self._ask("POST", f"/jobs/{job_id}/copies/seal", content=manifest, timeout=SLOW_LIMIT_S)

    def latest(self, job_id: str) -> bytes | None:
        found = self._ask("GET", f"/jobs/{job_id}/manifests/latest").json()["manifests"]
        return found[0].encode() if found else None

    def sealed(self, job_id: str) -> list[bytes]:
        return [text.encode() for text in self._ask("GET", f"/jobs/{job_id}/manifests").json()["manifests"]]

    def hold(self, job_id: str, checkpoint_id: str) -> str:
        answer = self._ask("POST", f"/jobs/{job_id}/holds", json={"checkpoint_id": checkpoint_id})
        return str(answer.json()["hold"])

    def renew(self, hold: str) -> None:
        self._ask("POST", f"/holds/{hold}")

    def release(self, hold: str) -> None:
        self._ask("DELETE", f"/holds/{hold}")

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        if keep < KEEP_AT_LEAST:
            raise ValueError(f"a vault keeps at least {KEEP_AT_LEAST} checkpoints of a job")
        answer = self._ask("POST", f"/jobs/{job_id}/forget", json={"keep": keep}, timeout=SLOW_LIMIT_S)
        return tuple(answer.json()["checkpoints"])

    def collect_garbage(self) -> Garbage:
        found = self._ask("POST", "/collect", timeout=SLOW_LIMIT_S).json()
        return Garbage(blocks=int(found["blocks"]), stored_bytes=int(found["stored_bytes"]))

    def _fetched(self, path: str) -> bytes:
        status, body = self._patiently(lambda: self._lines.get(path))
        if httpx.codes.is_success(status):
            return body
        raise _fault(status, body, self.describe())

    def _ask(self, method: str, path: str, **body: Any) -> httpx.Response:
        answer = self._patiently(
            lambda: self._client.request(method, path, **body), body.get("timeout", self._silence_limit_s)
        )
        if answer.is_success:
            return answer
        raise _fault(answer.status_code, answer.content, self.describe())

    def _patiently(self, ask: Callable[[], T], limit_s: float | None = None) -> T:
        for attempt in range(1, self._tries + 1):
            try:
                return ask()
            except HANGS as error:
                # It hangs, or its network does: there may be another place to save in.
                raise VaultOutOfReach(
                    f"{self.describe()} has taken and given nothing for "
                    f"{limit_s or self._silence_limit_s:g} s. Next: wait, or look whether it hangs"
                ) from error
            except (httpx.TransportError, LineBroken) as error:
                trouble = f"{self.describe()} cannot be reached: {str(error) or type(error).__name__}"
                if attempt == self._tries:
                    raise VaultOutOfReach(trouble) from error
                time.sleep(WAIT_S * 2**attempt)
        raise AssertionError("unreachable")


def desk_at_keeper(place: Place, **limits: Any) -> HttpVaultDesk:
    """Of a place on the disk of another machine, as the coordinator told of it. VaultUnavailable."""
    if not place.endpoint:
        raise VaultUnavailable(f"{place.node}, which keeps the place {place.name}, lends no disk now")
    return HttpVaultDesk(
        place.endpoint,
        place.admission,
        name=f"the place {place.name} on {place.node}",
        certificate=place.certificate,
        **limits,
    )


def _owner(job_id: str | None) -> str:
    """Blocks of everybody, or of one job with a key."""
    return "" if job_id is None else f"/jobs/{job_id}"


def _batches(names: Collection[str]) -> Iterator[list[str]]:
    left = iter(names)
    while batch := list(islice(left, BATCH_BLOCKS_MAX)):
        yield batch


def _fault(status: int, body: bytes, where: str) -> VaultFault:
    try:
        problem = json.loads(body)
        code, detail = str(problem.get("code")), str(problem.get("detail"))
    except (ValueError, AttributeError):
        code, detail = "", f"status {status}"
    return FAULTS.get(code, _unknown(status))(f"{where}: {detail}")


def _unknown(status: int) -> type[VaultFault]:
    """Of what the vault itself did not say: by a server that is too busy, or of another version."""
    if status in NOT_KNOWN:
        return _NoSuchQuestion
    return VaultOutOfReach if status >= SERVERS_TROUBLE else VaultUnavailable


class _NoSuchQuestion(VaultUnavailable):
    """Who was asked is of another version."""
