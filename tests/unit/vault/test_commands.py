"""`gpunion vault ls|verify|repair`, as people and programs see them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.cli.commands.operator.vault import _shown
from gpunion.cli.exits import CONFLICT, ERROR, NOT_FOUND, OK, UNAVAILABLE
from gpunion.sdk.errors import Unreachable
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.stores.bucket.bucket import open_bucket
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.replicate import DeskReplicas
from gpunion.vault.tree import FileEntry
from tests.builders.checkpoints import a_key, name_of, sealed
from tests.contract.vault.conftest import BUCKET, Place, directory
from tests.s3_server import S3Server, s3_server
from tests.unit.cli.campus_double import CampusDouble, Terminal


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = directory(tmp_path)
    sealed(place.open(), {"w": b"first"}, checkpoint_id="c1", step=1)
    sealed(place.open(), {"w": b"second"}, checkpoint_id="c2", step=2)
    return place


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def gpunion(tmp_path: Path) -> Terminal:
    return Terminal(CampusDouble(), tmp_path)


def test_ls_shows_every_checkpoint(place: Place, gpunion: Terminal) -> None:
    assert gpunion("vault", "ls", "vault") == OK
    assert [line.split()[:2] for line in gpunion.out.splitlines()[1:]] == [["job-1", "c1"], ["job-1", "c2"]]
    assert gpunion("vault", "ls", "vault", "--json") == OK
    jobs = json.loads(gpunion.out)["jobs"]
    assert [checkpoint["id"] for checkpoint in jobs[0]["checkpoints"]] == ["c1", "c2"]
    (manifest, _) = place.open().manifests("job-1")
    folder = FileEntry(path="folder", size_bytes=0, mode=0o040755, blocks=())
    assert _shown(replace(manifest, files=(folder, *manifest.files)))["files"] == 1


def test_verify_says_that_all_is_well(place: Place, gpunion: Terminal) -> None:
    assert gpunion("vault", "verify", "vault", "--job", "job-1") == OK
    assert "All can be restored." in gpunion.out


def test_a_job_in_a_vault_is_named_by_the_beginning_or_the_end_of_its_id(
    place: Place, gpunion: Terminal
) -> None:
    sealed(place.open(), {"w": b"other"}, job_id="job-2", checkpoint_id="d1")
    assert gpunion("vault", "ls", "vault", "--job", "2") == OK
    assert [line.split()[:2] for line in gpunion.out.splitlines()[1:]] == [["job-2", "d1"]]
    assert gpunion("vault", "verify", "vault", "--job", "job") == CONFLICT
    assert "could be 2 jobs" in gpunion.err
    assert gpunion("vault", "verify", "vault", "--job", "train") == NOT_FOUND
    assert "by their ids, not by their names" in gpunion.err


def test_a_repair_from_what_is_no_vault_does_not_blame_the_other_one(place: Place, gpunion: Terminal) -> None:
    place.damage_block(name_of(b"second"))
    assert gpunion("vault", "repair", "vault", "--from", "./nothing") == UNAVAILABLE
    assert "Error: one of the vaults cannot be used\nWhy: " in gpunion.err
    assert "nothing is no vault" in gpunion.err


def test_verify_without_the_keys_claims_no_more_than_it_knows(place: Place, gpunion: Terminal) -> None:
    sealed(place.open().keyed(a_key("job-2")), {"w": b"secret"}, job_id="job-2", checkpoint_id="d1")
    assert gpunion("vault", "verify", "vault") == OK
    assert "1 of the checkpoints are encrypted" in gpunion.out
    assert "Nothing is missing or damaged." in gpunion.out
    assert "All can be restored." not in gpunion.out
    assert gpunion("vault", "verify", "vault", "--json") == OK
    answer = json.loads(gpunion.out)
    assert (answer["checkpoints"], answer["encrypted"]) == (3, 1)
    assert gpunion("vault", "ls", "vault") == OK
    assert "d1" in gpunion.out


def test_verify_fails_and_names_what_is_lost_and_repair_takes_it_out_of_view(
    place: Place, gpunion: Terminal
) -> None:
    place.damage_block(name_of(b"second"))
    assert gpunion("vault", "verify", "vault") == ERROR
    assert "UNREADABLE job-1 c2" in gpunion.out
    assert gpunion("vault", "verify", "vault", "--json") == ERROR
    assert [lost["checkpoint_id"] for lost in json.loads(gpunion.out)["unreadable"]] == ["c2"]
    assert gpunion("vault", "repair", "vault") == OK
    assert "set aside job-1 c2" in gpunion.out
    assert gpunion("vault", "repair", "vault") == OK
    assert "nothing was changed" in gpunion.out


def test_what_is_not_there_is_said(place: Place, gpunion: Terminal) -> None:
    assert gpunion("vault", "ls", "./elsewhere") == UNAVAILABLE
    assert "is no vault, or nothing was saved there yet" in gpunion.err
    assert gpunion("vault", "ls", "elsewhere") == NOT_FOUND
    assert "and no place elsewhere of the campus" in gpunion.err
    assert "a place that there is: bucket, campus" in gpunion.err
    gpunion.campus.refuses = Unreachable("http://x.example", "connection refused")
    assert gpunion("vault", "ls", "campus") == UNAVAILABLE
    assert "whether campus is a place of the campus cannot be asked" in gpunion.err
    gpunion.campus.refuses = None
    assert gpunion("vault", "verify", "vault", "--job", "nobody") == NOT_FOUND


def test_places_are_listed_with_who_reaches_them(gpunion: Terminal) -> None:
    assert gpunion("places") == OK
    lines = [line.split() for line in gpunion.out.splitlines()]
    assert lines[1][:3] == ["campus", "(usual)", "campus"]
    assert lines[2][-3:] == ["alpha,", "beta", "-"]


def test_places_say_how_much_room_there_is_and_when_it_is_too_little(gpunion: Terminal) -> None:
    gpunion.campus.place_room = {"campus": 5 * 2**30}
    assert gpunion("places") == OK
    assert gpunion.out.splitlines()[1].endswith("5 GiB")
    assert "little room" not in gpunion.out
    gpunion.campus.place_room = {"campus": 0}
    assert gpunion("places") == OK
    assert "campus: little room is left" in gpunion.out


def test_a_job_says_where_its_checkpoints_are_kept(gpunion: Terminal) -> None:
    assert gpunion("submit", "--place", "bucket", "--no-dir", "--", "true") == OK
    assert gpunion.campus.submitted[-1]["place"] == "bucket"
    (gpunion.here / "gpunion.toml").write_text('command = "true"\ndir = false\nplace = "attic"\n')
    assert gpunion("submit") == OK
    assert gpunion.campus.submitted[-1]["place"] == "attic"


@pytest.mark.requires("s3")
@pytest.mark.xdist_group("s3-server")
def test_a_bucket_of_the_campus_is_verified_and_mended_from_a_folder_by_their_names(
    s3: S3Server, place: Place, gpunion: Terminal, tmp_path: Path
) -> None:
    bucket = {"kind": "s3", "bucket": BUCKET, "endpoint": s3.url, "prefix": "care"}
    (tmp_path / "key").write_text('access_key_id = "me"\nsecret_access_key = "hush"\n')
    (tmp_path / "key").chmod(0o600)
    gpunion.campus.named = {"bucket": {**bucket, "credentials": f"file:{tmp_path / 'key'}"}}
    objects = open_bucket(s3.bucket(BUCKET, prefix="care"))
    desks: dict[str, VaultDesk] = {
        "folder": DirectoryDesk(DirectoryVault(tmp_path / "vault")),
        "bucket": BucketDesk(objects),
    }
    copied = DeskReplicas(desks.__getitem__).complete(
        "job-1", ("folder", "bucket"), pace=lambda sent_bytes: None, cancelled=lambda: False
    )
    assert copied.copied == ("c1", "c2")
    (torn,) = [listed.key for listed in objects.list("blocks/") if name_of(b"second") in listed.key]
    objects.put(torn, b"torn")
    assert gpunion("vault", "verify", "bucket") == ERROR
    assert "UNREADABLE job-1 c2" in gpunion.out
    assert gpunion("vault", "repair", "bucket", "--from", "vault") == OK
    assert "1 checkpoints mended, 0 out of view" in gpunion.out
    assert gpunion("vault", "verify", "bucket") == OK
    assert gpunion("vault", "ls", "bucket") == OK
    assert [line.split()[:2] for line in gpunion.out.splitlines()[1:]] == [["job-1", "c1"], ["job-1", "c2"]]
    (tmp_path / "key").chmod(0o644)
    assert gpunion("vault", "ls", "bucket") == ERROR
    assert "chmod 600" in gpunion.err
    assert "hush" not in gpunion.err


def test_what_is_damaged_is_told_without_a_program_s_words_and_what_cannot_be_read_is_left_alone(
    place: Place, gpunion: Terminal, tmp_path: Path
) -> None:
    vault = tmp_path / "vault"
    [unread] = vault.glob("jobs/job-1/manifests/*-c1.json")
    unread.unlink()
    unread.mkdir()  # as good as a disk that answers with an error
    for number, damage in enumerate((b"\xff\xfe broken", b'{"format": 1, "mani', b'{"format": 7}')):
        sealed(place.open(), {"w": b"more"}, job_id=f"job-{number + 2}", checkpoint_id="d")
        [manifest] = vault.glob(f"jobs/job-{number + 2}/manifests/*.json")
        manifest.write_bytes(damage)
    name = name_of(b"second")
    (vault / "blocks" / name[:2] / name).write_bytes(b"short")
    assert gpunion("vault", "verify", "vault") == ERROR
    assert "NOT READ job-1 c1: reading its manifest: Is a directory" in gpunion.out
    for words in ("it is no text any more", "it breaks off", "of format 2, which", "head is cut short"):
        assert words in gpunion.out
    assert not re.search(r"codec|column|unpack|Errno|KeyError|'manifest'", gpunion.out)
    assert "1 could not be read this time" in gpunion.out
    assert "4 cannot be restored. Next: gpunion vault repair vault --from ANOTHER" in gpunion.out
    assert gpunion("vault", "repair", "vault", "--json") == CONFLICT
    repaired = json.loads(gpunion.out)
    assert [lost["checkpoint_id"] for lost in repaired["not_read"]] == ["c1"]
    assert len(repaired["set_aside"]) == 4
    assert unread.exists()


def test_a_block_that_the_disk_does_not_give_keeps_nobody_from_mending_the_others(
    place: Place, gpunion: Terminal, tmp_path: Path
) -> None:
    sealed(place.open(), {"w": b"unread", "v": b"damaged"}, job_id="job-2", checkpoint_id="d")
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    unread, damaged = (
        tmp_path / "vault" / "blocks" / name[:2] / name for name in map(name_of, (b"unread", b"damaged"))
    )
    unread.unlink()
    unread.mkdir()  # as good as a disk that answers with an error
    damaged.write_bytes(b"short")
    assert gpunion("vault", "repair", "vault", "--from", "copy", "--json") == CONFLICT
    repaired = json.loads(gpunion.out)
    assert repaired["replaced"] == [damaged.name]
    assert [lost["checkpoint_id"] for lost in repaired["not_read"]] == ["d"]
    assert repaired["set_aside"] == []


def test_a_job_that_nobody_can_save_is_told_and_mended(
    place: Place, gpunion: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "vault/jobs/job-1/epoch.json").write_bytes(b"")
    assert gpunion("vault", "verify", "vault") == ERROR
    assert "CANNOT SAVE job-1: the epoch record of job-1 is damaged" in gpunion.out
    assert "Next: end what runs of it, then gpunion vault repair vault" in gpunion.out
    assert gpunion("vault", "verify", "vault", "--json") == ERROR
    assert [fence["job_id"] for fence in json.loads(gpunion.out)["fences"]] == ["job-1"]
    assert gpunion("vault", "repair", "vault") == OK
    assert "mended    job-1 can save again: runs before its epoch 1 stay shut out" in gpunion.out
    assert gpunion("vault", "verify", "vault") == OK


def test_a_folder_under_another_job_s_name_is_left_alone_with_what_to_do(
    place: Place, gpunion: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "vault/jobs/job-1").rename(tmp_path / "vault/jobs/job-9")
    assert gpunion("vault", "verify", "vault") == ERROR
    assert "folder of job-9 is of job-1. Next: give the folders" in gpunion.out
    assert gpunion("vault", "repair", "vault") == CONFLICT
    assert "set aside" not in gpunion.out
