"""Named places for checkpoints: how they are written, which a job gets, and why one cannot be opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpunion.coordinator.locations.configured import CampusPlaces, LocationRefused, places_from
from gpunion.coordinator.settings import BadSettings, load
from gpunion.vault.locations import Place, PlaceKind, place_of, table_of
from gpunion.vault.manifest import VaultDenied, VaultUnavailable
from gpunion.vault.mark import mark_of
from gpunion.vault.shared import open_shared
from gpunion.vault.stores.bucket.credentials import credentials_of

BUCKET = {"kind": "s3", "bucket": "vaults", "endpoint": "https://s3.campus", "credentials": "env:S3"}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"kind": "tape"}, "kind is one of campus, directory, s3, node, not 'tape'"),
        ({}, "kind is one of"),
        ("a text", "is a table"),
        ({"kind": "directory"}, "lacks directory"),
        ({"kind": "directory", "directory": "vault"}, "begins with /"),
        ({"kind": "s3", "bucket": "b"}, "lacks credentials"),
        (BUCKET | {"buckett": "b"}, "did you mean 'bucket'?"),
        (BUCKET | {"secret_access_key": "hush"}, "a secret is not written here"),
        (BUCKET | {"credentials": "hush"}, "says where a machine finds its own"),
        (BUCKET | {"endpoint": "s3.campus"}, "store.endpoint looks like"),
        (BUCKET | {"endpoint": "https://"}, "store.endpoint looks like"),
        (BUCKET | {"endpoint": "http://s3.campus:99000"}, "store.endpoint looks like"),
        (BUCKET | {"endpoint": "http://s3.campus:0"}, "store.endpoint looks like"),
        (BUCKET | {"endpoint": "http://s3 campus"}, "store.endpoint looks like"),
        (BUCKET | {"endpoint": "http://s3.campus\n"}, "store.endpoint looks like"),
        (BUCKET | {"endpoint": "https://me:hush@s3.campus"}, "store.endpoint looks like"),
        (BUCKET | {"bucket": "Bad Bucket/x"}, "store.bucket is the bucket's name alone"),
        (BUCKET | {"prefix": "a//b"}, "store.prefix is a path"),
        (BUCKET | {"prefix": "a/../b"}, "store.prefix is a path"),
        (BUCKET | {"region": "us\neast"}, "store.region is one word"),
        (BUCKET | {"prefix": 3}, "not a text"),
    ],
)
def test_what_is_wrong_with_a_place_is_said_and_no_secret_with_it(table: object, told: str) -> None:
    with pytest.raises(ValueError) as trouble:
        place_of("store", table)
    assert told in str(trouble.value)
    assert "hush" not in str(trouble.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoint": "https://s3.campus.example:65535/minio"},
        {"endpoint": "http://[::1]:9000/"},
        {"bucket": "Old_Bucket.2", "prefix": "vaults/of a lab/", "region": "default"},
    ],
)
def test_what_servers_of_buckets_take_is_taken(settings: dict[str, str]) -> None:
    assert table_of(place_of("store", BUCKET | settings)).items() >= settings.items()


def test_a_place_can_be_told_and_read_again() -> None:
    for table in (BUCKET, {"kind": "directory", "directory": "/srv/vault"}, {"kind": "campus"}):
        place = place_of("store", table)
        assert place_of("store", table_of(place)) == place


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (
            Place(name="campus", kind=PlaceKind.CAMPUS),
            "kept by the coordinator: through it, or as a folder that a machine shares",
        ),
        (Place(name="attic", kind=PlaceKind.DIRECTORY, directory="/srv/attic"), "/srv/attic"),
        (Place(name="bucket", kind=PlaceKind.S3, bucket="b", prefix="p"), "bucket b/p"),
    ],
)
def test_where_a_place_is_is_told_to_people(place: Place, told: str) -> None:
    assert place.describe() == told


def test_the_coordinator_s_settings_name_places_and_the_usual_one(tmp_path: Path) -> None:
    file = tmp_path / "campus.toml"
    file.write_text(
        'place = "bucket"\n[places.bucket]\nkind = "s3"\nbucket = "v"\ncredentials = "file:/etc/key"\n'
    )
    settings = load(file)
    places = places_from(settings.places, settings.place)
    assert places.choose(None, None) == ("bucket",)
    assert places.choose("campus", None) == ()
    with pytest.raises(LocationRefused) as refused:
        places.choose("buckets", None)
    assert refused.value.code == "unknown_place"
    assert "there are bucket, campus" in str(refused.value)
    with pytest.raises(ValueError, match="no place is called 'attic'; there are bucket, campus"):
        places_from(settings.places, "attic")
    file.write_text('[places.bucket]\nkind = "s3"\nbucket = "v"\npassword = "hush"\n')
    with pytest.raises(BadSettings, match="a secret is not written here"):
        load(file)


def test_replicas_go_to_the_places_as_they_are_written_and_to_the_campus_s_own_last() -> None:
    tables = {"attic": {"kind": "directory", "directory": "/attic"}, "bucket": BUCKET}
    places = places_from(tables, "bucket", 2)
    assert places.choose(None, None) == ("bucket", "attic")
    assert places.choose("attic", 3) == ("attic", "bucket", "campus")
    assert places.choose("campus", 2) == ("campus", "attic")
    assert places.choose("campus", 1) == ()
    with pytest.raises(LocationRefused) as refused:
        places.choose(None, 4)
    assert refused.value.code == "too_few_places"
    with pytest.raises(ValueError, match="there are 3 places"):
        places_from(tables, "bucket", 4)


def test_a_campus_without_named_places_has_its_own_vault() -> None:
    assert CampusPlaces().choose(None, None) == ()


@pytest.mark.parametrize(
    ("reference", "environment", "told"),
    [
        ("env:S3", {}, "S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY is not set"),
        ("env:S3", {"S3_ACCESS_KEY_ID": "hush"}, "S3_SECRET_ACCESS_KEY is not set"),
        (
            "env:S3",
            {"S3_ACCESS_KEY_ID": "me\n", "S3_SECRET_ACCESS_KEY": "hush"},
            "access_key_id of S3 has a blank, a line break",
        ),
        ("file:{}/none", {}, "cannot be read"),
        ("file:{}/open", {}, "chmod 600"),
        ("file:{}/half", {}, "lacks secret_access_key"),
        ("file:{}/torn", {}, "is not of lines like"),
    ],
)
def test_missing_credentials_are_denied_with_what_to_do(
    tmp_path: Path, reference: str, environment: Mapping[str, str], told: str
) -> None:
    for name, text in (("open", ""), ("half", 'access_key_id = "hush"'), ("torn", "hush = = hush")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    place = place_of("store", BUCKET | {"credentials": reference.format(tmp_path)})
    with pytest.raises(VaultDenied) as denied:
        credentials_of(place, environment)
    assert told in str(denied.value)
    assert "Next: " in str(denied.value)
    assert "hush" not in str(denied.value)


def test_credentials_are_found_where_the_place_says_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text('access_key_id = "me"\nsecret_access_key = "hush"\n')
    (tmp_path / "key").chmod(0o600)
    from_file = credentials_of(place_of("store", BUCKET | {"credentials": f"file:{tmp_path}/key"}), {})
    variables = {"S3_ACCESS_KEY_ID": "me", "S3_SECRET_ACCESS_KEY": "hush"}
    assert from_file == credentials_of(place_of("store", BUCKET), variables)
    assert from_file.secret_access_key == "hush"
    assert "hush" not in repr(from_file)


def test_a_folder_that_only_has_the_name_is_not_the_place(tmp_path: Path) -> None:
    shared, empty = tmp_path / "shared", tmp_path / "empty"
    place = Place(name="nfs", kind=PlaceKind.DIRECTORY, directory=str(shared), mark=mark_of(shared))
    assert open_shared(place).describe() == f"directory {shared}"
    empty.mkdir()
    with pytest.raises(VaultUnavailable, match="its mark is not there"):
        open_shared(Place(name="nfs", kind=PlaceKind.DIRECTORY, directory=str(empty), mark=place.mark))
    assert list(empty.iterdir()) == []
