"""Whether a forwarder of this very user's listens at a session's port: only then is a token shown to it.

Anybody on this machine can listen at a port that follows from a name, and say what our pages say. What they
cannot do is answer a question with a secret from a file that only its user reads. The answer holds for one
port and all addresses of it, so that nobody gets it from another forwarder.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.cli.config import config_path
from gpunion.cli.sessions.listening import HERE
from gpunion.cli.sessions.origin import Site

SECRET_FILE = "pages.key"
SECRET_BYTES = 32
PAGE, QUESTION = "proof", "x-gpunion-question"
QUESTION_MAX_CHARS = 128
ASK_LIMIT_S = 5.0
ANSWER_MAX_BYTES = 1 << 16


def secret_of_user(environment: Mapping[str, str]) -> bytes:
    """Made when first asked for. Where none can be kept it is known to this process alone, and no other
    command finds out that it serves a page."""
    path = config_path(environment).with_name(SECRET_FILE)
    with contextlib.suppress(OSError):
        return _kept(path) or _made(path)
    return secrets.token_bytes(SECRET_BYTES)


def _kept(path: Path) -> bytes | None:
    """None where somebody else may have read or written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        there = os.fstat(descriptor)
        private = there.st_uid == os.getuid() and not there.st_mode & 0o077 and stat.S_ISREG(there.st_mode)
        secret = file.read(SECRET_BYTES) if private else b""
    return secret if len(secret) == SECRET_BYTES else None


def _made(path: Path) -> bytes:
    """Whole or not at all. Of two commands that make one at a time, the later one's is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    secret = secrets.token_bytes(SECRET_BYTES)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    os.rename(unfinished, path)
    return secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    site: Site
    url: str  # of the coordinator: a session of that name may live on another campus too
    addresses: Sequence[str]
    secret: bytes = field(repr=False)

    def of(self, question: str) -> str:
        words = [self.url, self.site.host, *self.addresses, question[:QUESTION_MAX_CHARS]]
        return hmac.new(self.secret, "\n".join(words).encode(), hashlib.sha256).hexdigest()

    async def is_given(self) -> bool:
        """Whether a forwarder of this session stands at its port: a second one would be no other."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(ASK_LIMIT_S):
                reader, writer = await asyncio.open_connection(HERE, self.site.port)
                try:
                    question = secrets.token_hex(16)
                    writer.write(self._request(question))
                    return _says(await _read(reader), self.of(question))
                finally:
                    writer.close()
        return False

    def _request(self, question: str) -> bytes:
        lines = (
            f"GET /.gpunion/{PAGE} HTTP/1.1",
            f"Host: {self.site.host}",
            f"{QUESTION}: {question}",
            "Connection: close",
        )
        return "\r\n".join([*lines, "", ""]).encode()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """An answer comes in as many pieces as it likes: head and body are seldom one."""
    answer = b""
    while len(answer) < ANSWER_MAX_BYTES and (piece := await reader.read(ANSWER_MAX_BYTES)):
        answer += piece
    return answer


def _says(answer: bytes, expected: str) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 200") and hmac.compare_digest(body.strip(), expected.encode())
