"""The campus's images over real HTTP: sent, listed, fetched from the middle, refused, removed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from gpunion.adapters.http.link import HttpLink
from gpunion.ports.coordinator_link import LinkFault
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from gpunion.wire.image_archive import file_digest, reduce_archive
from tests.integration.coordinator.process import Coordinator, a_job
from tests.saved_images import a_layer, save_image
from tests.services import ANSWER_LIMIT_S


def an_image(folder: Path, marker: bytes) -> tuple[Path, str]:
    save_image(folder / "saved.tar", a_layer({"marker": marker}))
    reduced = folder / f"{marker.decode()}.tar"
    return reduced, reduce_archive(folder / "saved.tar", reduced, None)


def test_an_image_is_sent_listed_fetched_from_the_middle_and_removed(
    shared: Coordinator, client: Client, tmp_path: Path
) -> None:
    reduced, digest = an_image(tmp_path, b"one")
    ref = f"torch:2.4@sha256:{digest}"
    archive = client.put_image_archive(reduced)
    assert client.put_image_archive(reduced) == archive == file_digest(reduced)  # nothing to send
    client.add_image(ref, archive)
    node = client.enrol(client.make_join_token()["join_token"], "alpha")
    [listed] = client.images()
    assert (listed["image"], listed["added_by"]) == (ref, "admin")
    assert listed["size_bytes"] == reduced.stat().st_size
    assert client.submit(a_job(image="torch:2.4"))["job"]["image"] == ref
    headers = {"Authorization": f"Bearer {node['credential']}", "Range": "bytes=100-"}
    url = f"{shared.url}/api/v1/image-archives/{archive}"
    answer = httpx.get(url, headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S)
    assert (answer.status_code, answer.content) == (206, reduced.read_bytes()[100:])
    client.remove_image("torch:2.4")
    assert client.images() == []
    assert httpx.get(url, headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S).status_code == 404
    events = client.events(since=0, reconnect=False)
    told = (reason for event in events for reason in event["reasons"])
    assert next(r["sentence"] for r in told if r["code"] == "image_added") == (
        f"admin put {ref} on the campus's list"
    )


async def test_a_node_fetches_only_what_it_lacks(client: Client, tmp_path: Path) -> None:
    reduced, _ = an_image(tmp_path, b"three")
    archive = client.put_image_archive(reduced)
    node = client.enrol(client.make_join_token()["join_token"], "fetcher")
    link = HttpLink(client.url, node["credential"])
    into, data = tmp_path / "fetched", reduced.read_bytes()
    into.write_bytes(data[:1000])
    told: list[int] = []
    await link.fetch_archive(archive, into, told.append)
    assert (into.read_bytes(), told) == (data, [len(data)])
    await link.fetch_archive(archive, into, told.append)  # all of it is there
    assert (into.read_bytes(), told) == (data, [len(data)])
    with pytest.raises(LinkFault, match="there is no archive") as unknown:
        await link.fetch_archive("1" * 64, tmp_path / "nothing", told.append)
    assert not unknown.value.temporary
    await link.close()


def test_what_is_not_the_image_it_was_called_is_refused(client: Client, tmp_path: Path) -> None:
    reduced, digest = an_image(tmp_path, b"two")
    archive = client.put_image_archive(reduced)
    with pytest.raises(ApiProblem, match=f"holds sha256:{digest}, not sha256:{'0' * 64}") as wrong:
        client.add_image(f"torch@sha256:{'0' * 64}", archive)
    assert wrong.value.code == "wrong_digest"
    (tmp_path / "junk.tar").write_bytes(b"junk")
    with pytest.raises(ApiProblem, match="cannot be read") as bad:
        client.put_image_archive(tmp_path / "junk.tar")
    assert bad.value.code == "bad_archive"
    with pytest.raises(ApiProblem) as missing:
        client.add_image(f"torch@sha256:{digest}", "1" * 64)
    assert missing.value.code == "archive_missing"


def test_an_image_that_is_not_listed_or_not_named_well_is_refused(client: Client) -> None:
    with pytest.raises(ApiProblem, match="does not list the image jax") as unlisted:
        client.submit(a_job(image="jax"))
    assert unlisted.value.code == "image_not_listed"
    for odd in ("Torch!", "torch@sha256:12", ""):
        with pytest.raises(ApiProblem) as unnamed:
            client.submit(a_job(image=odd))
        assert unnamed.value.code == "invalid_request"
    with pytest.raises(ApiProblem, match="not pinned"):
        client.add_image("torch")
    with pytest.raises(ApiProblem) as unknown:
        client.remove_image("nothing")
    assert unknown.value.code == "not_found"


def test_two_images_of_one_name_are_told_apart_by_digest(client: Client) -> None:
    first, second = (f"pair@sha256:{digit * 64}" for digit in "ab")
    client.add_image(first)
    client.add_image(second)
    with pytest.raises(ApiProblem) as ambiguous:
        client.remove_image("pair")
    assert ambiguous.value.code == "ambiguous"
    assert client.submit(a_job(image="pair"))["job"]["image"] == second
    client.remove_image(second)
    assert client.submit(a_job(image="pair"))["job"]["image"] == first


def test_a_job_without_a_command_is_taken_where_its_image_says_what_to_run(
    client: Client, tmp_path: Path
) -> None:
    files: dict[str, Path] = {}
    for name, settings in (("silent", {}), ("app", {"Entrypoint": ["/app"], "Cmd": ["serve"]})):
        save_image(tmp_path / "saved.tar", a_layer({"marker": name.encode()}), settings=settings)
        files[name] = tmp_path / f"{name}.tar"
        digest = reduce_archive(tmp_path / "saved.tar", files[name], None)
        client.add_image(f"{name}:1@sha256:{digest}", client.put_image_archive(files[name]))
    with pytest.raises(ApiProblem, match="silent:1 has no ENTRYPOINT and no CMD") as refused:
        client.submit(a_job(image="silent:1", command=[]))
    assert refused.value.code == "nothing_to_run"
    made = client.submit(a_job(image="app:1", command=[]))["job"]
    assert (made["command"], made["entrypoint"]) == ([], None)
    made = client.submit(a_job(image="silent:1", command=[], entrypoint=["/bin/true"]))["job"]
    assert made["entrypoint"] == ["/bin/true"]
