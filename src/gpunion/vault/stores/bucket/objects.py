"""The few operations on a bucket that a vault's safety rests on, and what its errors mean.

A store must answer reads and lists with what was written before (as S3 does), and must honour conditional
writes: `create` only where there is nothing, `replace` only what was read. A store that ignores conditions is
refused when it is opened, since there two runs of a job could both seal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from gpunion.vault.manifest import VaultDenied, VaultFault, VaultFull, VaultUnavailable

# What servers answer when a bucket, a quota or their disks have no room.
FULL_CODES = ("QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage")
FULL_STATUS = "507 "
DENIED_STATUS = ("401 ", "403 ")
DELETE_AT_ONCE = 500  # S3 takes a thousand names in one request
CLOCK_KEY = "clock"
PANIC = "PanicException"

_CODE = re.compile(r"<Code>([A-Za-z.]+)</Code>")
_NOT_SENT = "error sending request"  # as obstore says that nobody took it
_STATUS = re.compile(r"status code: (\d{3} )")


class Store(Protocol):
    """What we use of an obstore store; its own in-memory one serves in tests."""

    def put(self, path: str, file: bytes, *, mode: Any = None) -> Any: ...

    def get(self, path: str) -> Any: ...

    def head(self, path: str) -> Any: ...

    def list(self, prefix: str | None = None) -> Any: ...

    def delete(self, paths: str | Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Found:
    data: bytes
    etag: str
    modified_s: float  # by the server's clock


@dataclass(frozen=True, slots=True)
class Listed:
    key: str
    size_bytes: int
    modified_s: float  # by the server's clock


class Objects:
    """Any number of threads at once. Every fault is one of `vault.manifest`."""

    def __init__(self, store: Store, where: str) -> None:
        self._store = store
        self.where = where
        self._offset_s: float | None = None

    def get(self, key: str) -> Found | None:
        with self._translated("reading"):
            try:
                answer = self._store.get(key)
                about = answer.meta
                return Found(bytes(answer.bytes()), str(about["e_tag"]), _seconds(about["last_modified"]))
            except FileNotFoundError as error:
                self._bucket_must_exist(error)
                return None

    def exists(self, key: str) -> bool:
        with self._translated("looking"):
            try:
                self._store.head(key)
            except FileNotFoundError:
                return False
            return True

    def put(self, key: str, data: bytes) -> None:
        with self._translated("writing"):
            self._store.put(key, data)

    def create(self, key: str, data: bytes) -> bool:
        """False: there is something already, perhaps by an earlier try of this very call."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._translated("writing"):
            try:
                self._store.put(key, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

    def replace(self, key: str, data: bytes, etag: str) -> bool:
        """False: somebody else was faster, or an earlier try of this very call was."""
        from obstore.exceptions import PreconditionError

        with self._translated("writing"):
            try:
                self._store.put(key, data, mode={"e_tag": etag})
            except PreconditionError:
                return False
            return True

    def list(self, prefix: str) -> list[Listed]:
        """Everything below `prefix`, which ends at a slash."""
        with self._translated("listing"):
            return [
                Listed(about["path"], int(about["size"]), _seconds(about["last_modified"]))
                for page in self._store.list(prefix)
                for about in page
            ]

    def delete(self, keys: Sequence[str]) -> None:
        """Those that are not there are fine."""
        with self._translated("deleting"):
            for start in range(0, len(keys), DELETE_AT_ONCE):
                self._store.delete(list(keys[start : start + DELETE_AT_ONCE]))

    def now_s(self) -> float:
        """By the server's clock, give or take a second; it is asked once. It goes on in a suspend."""
        if self._offset_s is None:
            self.put(CLOCK_KEY, b"")
            with self._translated("asking for the time"):
                self._offset_s = _seconds(self._store.head(CLOCK_KEY)["last_modified"]) - _since_boot_s()
        return _since_boot_s() + self._offset_s

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except VaultFault:
            raise
        except BaseException as error:  # obstore has one class for most; the server's answer tells more
            if not is_of_obstore(error):
                raise
            raise self._fault(what, error) from error

    def _bucket_must_exist(self, error: Exception) -> None:
        if "NoSuchBucket" in str(error):
            raise self._fault("reading", error) from error

    def _fault(self, what: str, error: BaseException) -> VaultFault:
        text = str(error)
        code = found.group(1) if (found := _CODE.search(text)) else ""
        status = found.group(1) if (found := _STATUS.search(text)) else ""
        told = f"{what} in {self.where}: {code or status.strip() or _in_short(text)}"
        if code in FULL_CODES or status == FULL_STATUS:
            return VaultFull(
                f"{told}: no room is left there. Next: the operator raises the quota or deletes what is not "
                "needed; old checkpoints are forgotten by themselves"
            )
        if status in DENIED_STATUS or type(error).__name__ in (
            "PermissionDeniedError",
            "UnauthenticatedError",
        ):
            return VaultDenied(
                f"{told}: this machine's credentials are refused. Next: look at what `credentials` of the "
                "place refers to, and whether that key may read, write, list and delete there"
            )
        if code == "NoSuchBucket":
            return VaultUnavailable(
                f"{told}: there is no such bucket. Next: the operator makes it, or names another"
            )
        if type(error).__name__ == PANIC:
            return VaultUnavailable(
                f"{told}. Next: look at endpoint, bucket and region of the place: obstore does not take them"
            )
        return VaultUnavailable(f"{told}. Next: wait, or look whether the server can be reached from here")


def _in_short(text: str) -> str:
    """A server that is away is told in the same words each time, not with how long was waited for it."""
    return "there was no answer" if _NOT_SENT in text else _first_line(text)


def is_of_obstore(error: BaseException) -> bool:
    """Its panics are no Exceptions, have no class to import, and mean no more than that: it did not work."""
    return isinstance(error, Exception) or type(error).__name__ == PANIC


def _since_boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no answer"
