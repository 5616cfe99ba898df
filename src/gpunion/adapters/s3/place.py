"""A place of kind `s3` as a vault of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpunion.adapters.files.mirror import MirrorVault
from gpunion.adapters.s3.bucket import TRIES, Bucket, open_bucket
from gpunion.adapters.s3.credentials import credentials_of
from gpunion.adapters.s3.desk import BucketDesk
from gpunion.domain.place import Place


def desk_of(
    place: Place, environment: Mapping[str, str], *, create: bool = True, tries: int = TRIES
) -> BucketDesk:
    """VaultDenied, VaultUnavailable."""
    found = credentials_of(place, environment)
    bucket = Bucket(
        bucket=place.bucket,
        endpoint=place.endpoint,
        region=place.region,
        prefix=place.prefix,
        access_key_id=found.access_key_id,
        secret_access_key=found.secret_access_key,
        session_token=found.session_token,
        tries=tries,
    )
    return BucketDesk(open_bucket(bucket), create=create)


def vault_of(place: Place, environment: Mapping[str, str], mirror: Path, limit_bytes: int) -> MirrorVault:
    return MirrorVault(desk_of(place, environment), mirror, limit_bytes=limit_bytes)
