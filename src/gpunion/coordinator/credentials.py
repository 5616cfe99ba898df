"""Who is calling. Secrets are shown once, when they are made; only their SHA-256 is kept.

A secret has 256 bits of chance, so a plain hash of it can be looked up: there is nothing to guess.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import structlog

from gpunion.coordinator.data_dir import ADMIN_FILE, METRICS_FILE
from gpunion.domain.ids import NodeId
from gpunion.ports.database import Credential, CredentialKind, Redeemed, Store

ADMIN = "admin"
METRICS = "metrics"
# Longer headers are not looked at.
TOKEN_LIMIT_CHARS = 256
_NAME_TRIES = 1000
_ADMIN_TOKEN = re.compile(r"gpunion-admin-[A-Za-z0-9_-]{43}")

log = structlog.get_logger("gpunion.coordinator")


class JoinRefused(Exception):
    def __init__(self, outcome: Redeemed) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


def new_token(kind: str) -> str:
    return f"gpunion-{kind}-{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def fingerprint(credential: Credential) -> str:
    """Short enough to compare by eye on both sides, and no help in finding the secret."""
    shown = hashlib.sha256(credential.digest.encode()).hexdigest()[:16]
    return "-".join(shown[place : place + 4] for place in range(0, 16, 4))


class Keyring:
    """All credentials, in memory; the store has them too."""

    def __init__(self, store: Store, now_s: Callable[[], float]) -> None:
        self._store = store
        self._now_s = now_s
        self._by_digest: dict[str, Credential] = {}
        self._enrolling = asyncio.Lock()  # two machines must not be given one id

    async def load(self) -> None:
        self._by_digest = {credential.digest: credential for credential in await self._store.credentials()}

    def who(self, token: str) -> Credential | None:
        if len(token) > TOKEN_LIMIT_CHARS:
            return None
        digest = digest_of(token)
        credential = self._by_digest.get(digest)
        if credential is None or not hmac.compare_digest(credential.digest, digest):
            return None
        return credential

    def of_node(self, node_id: str) -> Credential | None:
        for credential in self._by_digest.values():
            if credential.kind is CredentialKind.NODE and credential.name == node_id:
                return credential
        return None

    async def bootstrap_admin(self, folder: Path) -> str | None:
        """The admin token, where this is the first start; None where there is one already."""
        if any(known.kind is CredentialKind.ADMIN for known in self._by_digest.values()):
            return None
        return await self._make_admin(folder, _kept_token(folder) or new_token(ADMIN))

    async def replace_admin(self, folder: Path) -> str:
        """A new admin token; the one before is void from now on."""
        return await self._make_admin(folder, new_token(ADMIN))

    async def bootstrap_metrics(self, folder: Path) -> None:
        """The token of whoever watches from outside. Where its file is missing there is a new one: the one
        before is void then."""
        known = self.who(_read_secret(folder / METRICS_FILE))
        if known is not None and known.kind is CredentialKind.METRICS:
            return
        token, path = new_token(METRICS), folder / METRICS_FILE
        try:
            _write_secret(path, token)
        except OSError as error:
            # Jobs do not wait for whoever watches them; the admin token reads the page as well.
            log.error("metrics_token_not_kept", file=str(path), trouble=str(error))
            return
        log.info("metrics_token_new", file=str(path), next_step="copy it to where Prometheus reads it")
        await self._keep(self._credential(CredentialKind.METRICS, METRICS, token, ""))

    async def _make_admin(self, folder: Path, token: str) -> str:
        _write_secret(folder / ADMIN_FILE, token)
        await self._keep(self._credential(CredentialKind.ADMIN, ADMIN, token, ""))
        return token

    async def make_join_token(self, expires_s: float) -> str:
        token = new_token("join")
        await self._store.put_join_token(digest_of(token), expires_s=expires_s)
        return token

    async def enrol(self, join_token: str, name: str, lab: str) -> tuple[Credential, str]:
        """The node's credential and its secret. A name that any node ever had gets a number: a machine is
        trusted with what was given to its id, and no other machine is ever trusted with that. Credentials
        are kept for good, also of nodes that have left, so the store knows every id there was."""
        async with self._enrolling:
            node_id = self._free_name(name.lower())
            token = new_token("node")
            credential = self._credential(CredentialKind.NODE, node_id, token, lab)
            digest = digest_of(join_token)
            outcome = await self._store.redeem(digest, now_s=self._now_s(), credential=credential)
            if outcome is not Redeemed.TAKEN:
                raise JoinRefused(outcome)
            self._remember(credential)
            return credential, token

    def _free_name(self, name: str) -> NodeId:
        for number in range(1, _NAME_TRIES):
            node_id = NodeId(name if number == 1 else f"{name}-{number}")
            if self.of_node(node_id) is None:
                return node_id
        return NodeId(f"{name}-{secrets.token_hex(8)}")

    def _credential(self, kind: CredentialKind, name: str, token: str, lab: str) -> Credential:
        return Credential(kind=kind, name=name, digest=digest_of(token), lab=lab, created_s=self._now_s())

    async def _keep(self, credential: Credential) -> None:
        await self._store.put_credential(credential)
        self._remember(credential)

    def _remember(self, credential: Credential) -> None:
        for digest, known in list(self._by_digest.items()):
            if (known.kind, known.name) == (credential.kind, credential.name):
                del self._by_digest[digest]
        self._by_digest[credential.digest] = credential


def _kept_token(folder: Path) -> str | None:
    """A token written by a start that died before the store had it."""
    token = _read_secret(folder / ADMIN_FILE)
    return token if _ADMIN_TOKEN.fullmatch(token) else None


def _read_secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _write_secret(path: Path, secret: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(secret + "\n")
    os.replace(fresh, path)
