"""What a job's key does: names that tell nothing, and bytes that only the key opens.

From the job's secret come three keys: for names, for nonces and for content (AES-256-GCM). A nonce is made
from all that is encrypted under it, so the same one comes up again for the same message only. From a block's
name alone it must not be made: the same block may be packed in two ways, by two versions of the codec.
"""

from __future__ import annotations

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gpunion.vault.manifest import JobKey

SECRET_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
KEY_ID_BYTES = 8
_LENGTH_BYTES = 8


class DoesNotOpen(Exception):
    """Another key, or bytes that were changed."""


class JobCipher:
    def __init__(self, key: JobKey) -> None:
        if len(key.secret) != SECRET_BYTES:
            raise ValueError(f"a job's key has {SECRET_BYTES} bytes, not {len(key.secret)}")
        self._names = _derived(key, "block names")
        self._nonces = _derived(key, "nonces")
        self._content = AESGCM(_derived(key, "content"))
        self.key_id = _derived(key, "key id")[:KEY_ID_BYTES].hex()

    def name(self, plain_name: str) -> str:
        """What a block is stored as, by the hash of its plain bytes."""
        return blake3(bytes.fromhex(plain_name), key=self._names).hexdigest()

    def seal(self, data: bytes, about: bytes) -> bytes:
        """The nonce, then what was encrypted; `about` stays readable but cannot be changed either."""
        length = len(about).to_bytes(_LENGTH_BYTES, "little")
        nonce = blake3(length + about + data, key=self._nonces).digest(NONCE_BYTES)
        return nonce + self._content.encrypt(nonce, data, about)

    def open(self, sealed: bytes | memoryview, about: bytes) -> bytes:
        try:
            return self._content.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about)
        except (InvalidTag, ValueError) as error:
            raise DoesNotOpen from error


def _derived(key: JobKey, use: str) -> bytes:
    context = f"gpunion vault 2026-11 {use}"
    return blake3(key.secret + key.job_id.encode(), derive_key_context=context).digest()
