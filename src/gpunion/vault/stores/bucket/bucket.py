"""Opens a bucket through obstore, which is an extra: most machines need none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.stores.bucket.objects import Objects, is_of_obstore

REQUEST_LIMIT_S = 60  # for one block or less; a server that hangs is given up after it, and not asked again
CONNECT_LIMIT_S = 10
# A server that starts again, a cable that is plugged in again: the upload goes on from the same block.
TRIES = 5
TRIES_LIMIT_S = 30


def _obstore() -> Any:
    from obstore.store import S3Store

    return S3Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """`endpoint` is empty for Amazon's own. Keys never show in a log or an error."""

    bucket: str
    endpoint: str = ""
    region: str = "us-east-1"
    prefix: str = ""
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    tries: int = TRIES
    request_limit_s: int = REQUEST_LIMIT_S

    def describe(self) -> str:
        path = f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket
        return f"bucket {path}" + (f" at {self.endpoint}" if self.endpoint else "")


def open_bucket(bucket: Bucket, load: Callable[[], Any] = _obstore) -> Objects:
    try:
        s3_store = load()
    except ImportError as error:
        raise VaultUnavailable(
            f"{bucket.describe()} needs the package obstore, which is not installed here. "
            "Next: python -m pip install 'gpunion[s3]'"
        ) from error
    try:
        return Objects(_store(s3_store, bucket), bucket.describe())
    except BaseException as error:
        if not is_of_obstore(error):
            raise
        # What it says may repeat a setting of the credentials.
        raise VaultUnavailable(
            f"{bucket.describe()} cannot be opened: obstore does not take these settings "
            f"({type(error).__name__}). Next: look at endpoint, bucket, region and prefix of the place, and "
            "at what its credentials refer to"
        ) from None


def _store(s3_store: Any, bucket: Bucket) -> Any:
    options = {
        "region": bucket.region,
        "access_key_id": bucket.access_key_id,
        "secret_access_key": bucket.secret_access_key,
        "virtual_hosted_style_request": not bucket.endpoint,
        **({"endpoint": bucket.endpoint} if bucket.endpoint else {}),
        **({"session_token": bucket.session_token} if bucket.session_token else {}),
    }
    return s3_store(
        bucket.bucket,
        prefix=bucket.prefix or None,
        client_options={
            "allow_http": bucket.endpoint.startswith("http://"),
            "timeout": f"{bucket.request_limit_s}s",
            "connect_timeout": f"{CONNECT_LIMIT_S}s",
        },
        retry_config={
            "max_retries": bucket.tries - 1,
            "retry_timeout": timedelta(seconds=TRIES_LIMIT_S),
        },
        **options,
    )
