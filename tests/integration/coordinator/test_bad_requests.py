"""What nobody should send: a clear refusal each, with a stable code and what to do next."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from gpunion.sdk.client import Client
from gpunion.sdk.errors import NotACoordinator, Unreachable
from gpunion.vault.job_directories import STREAM_LIMIT_BYTES, Unframing, digest_of, encode_list, frame
from tests.integration.coordinator.process import Coordinator, a_job
from tests.services import ANSWER_LIMIT_S
from tests.trees import a_tree

DIGEST = "0" * 64


@pytest.fixture
def http(shared: Coordinator) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {shared.token}"}
    with httpx.Client(base_url=shared.url + "/api/v1", headers=headers, trust_env=False, timeout=60) as http:
        yield http


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert problem["detail"]
    assert problem["next_step"]
    assert "Traceback" not in answer.text
    return problem


def test_a_misspelt_key_is_refused_with_the_one_that_was_meant(http: httpx.Client) -> None:
    problem = assert_problem(http.post("/jobs", json=a_job(comand=["x"])), 422, "unknown_key")
    assert problem["errors"] == [{"at": "body", "message": "unknown key 'comand'; did you mean 'command'?"}]
    problem = assert_problem(http.post("/jobs", json=a_job(resources={"gpu": 1})), 422, "unknown_key")
    assert problem["errors"][0] == {
        "at": "body.resources",
        "message": "unknown key 'gpu'; did you mean 'gpus'?",
    }
    problem = assert_problem(http.get("/jobs", params={"limt": 3}), 422, "unknown_key")
    assert "did you mean 'limit'" in problem["detail"]
    assert_problem(http.post("/join-tokens", json={"expires": 3}), 422, "unknown_key")


@pytest.mark.parametrize(
    "changes",
    [
        {"command": [""]},
        {"command": "python train.py"},
        {"command": ["a\0b"]},
        {"name": ""},
        {"name": "two\nlines"},
        {"name": 7},
        {"resources": {"gpus": -1}},
        {"resources": {"gpus": 10**400}},
        {"resources": {"vram": "a lot"}},
        {"resources": {"memory": -5}},
        {"resources": {"memory": 0}},
        {"resources": {"cpus": 0}},
        {"resources": {"cpus": "NaN"}},
        {"resources": None},
        {"environment": {"2BAD": "x"}},
        {"environment": {"GPUNION_JOB_ID": "x"}},
        {"environment": {"BIG": "x" * 300_000}},
        {"priority": "urgent"},
        {"bundle": "../../etc/passwd"},
        {"lab": "../x"},
        {"checkpoint": {"max_interval_s": 0}},
        {"checkpoint": {"max_interval_s": 1, "min_interval_s": 60}},
        {"expected_s": -1},
    ],
)
def test_a_job_that_makes_no_sense_is_refused(http: httpx.Client, changes: dict[str, Any]) -> None:
    problem = assert_problem(http.post("/jobs", json=a_job(**changes)), 422, "invalid_request")
    assert problem["errors"][0]["at"].startswith(f"body.{next(iter(changes))}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "two\nlines"}, "name: write it with one line, without control characters"),
        ({"name": ""}, "name: it may not be empty"),
        ({"name": "n" * 129}, "name: it is too long: at most 128 characters"),
        ({"environment": {"A B": "x"}}, "environment.A B: write it with letters, digits and underscores"),
        ({"gang": 1000}, "gang: it is too much: at most 64"),
        ({"replicas": 0}, "replicas: it is too little: at least 1"),
        ({"expected_s": 0}, "expected_s: it has to be more than 0"),
        ({"lockfile": "x", "image": "y"}, "lockfile and image exclude each other"),
        ({"command": []}, "command is missing: only an image can say itself what is run"),
    ],
)
def test_what_makes_no_sense_is_told_in_words(
    http: httpx.Client, changes: dict[str, Any], words: str
) -> None:
    problem = assert_problem(http.post("/jobs", json=a_job(**changes)), 422, "invalid_request")
    assert problem["detail"].startswith(words)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b'{"name": NaN', b"[" * 100_000, b'{"name": "\\ud800", "command": ["x"]}'],
)
def test_a_body_that_is_no_json_is_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert_problem(answer, answer.status_code, answer.json()["code"])
    assert answer.json()["code"] in ("malformed_json", "invalid_request")


@pytest.mark.parametrize("body", ["[]", "null", "3", '"text"'])
def test_a_body_that_is_no_object_is_refused(http: httpx.Client, body: str) -> None:
    answer = http.post("/jobs", content=body, headers={"Content-Type": "application/json"})
    assert_problem(answer, 422, "invalid_request")


def test_routes_and_methods_that_are_not_there(http: httpx.Client) -> None:
    assert_problem(http.get("/nothing"), 404, "not_found")
    assert_problem(http.get("/jobs/"), 404, "not_found")
    assert_problem(http.delete("/jobs"), 405, "method_not_allowed")
    assert_problem(http.get("/jobs/job-unknown"), 404, "not_found")
    assert_problem(http.get("/jobs/job-unknown/why"), 404, "not_found")
    assert_problem(http.post("/jobs/job-unknown/stop"), 404, "not_found")
    assert_problem(http.get("/nodes/nobody"), 404, "not_found")


def test_a_body_that_is_too_large_is_refused(http: httpx.Client, client: Client) -> None:
    huge = b'{"name": "' + b"x" * (2 * 1024**2) + b'"}'
    assert_problem(http.post("/jobs", content=huge), 413, "too_large")

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 65536

    assert_problem(http.post("/jobs", content=pieces()), 413, "too_large")
    assert_problem(http.post("/enrol", content=b"x" * 20_000), 413, "too_large")


def test_a_large_body_is_refused_before_it_is_sent(shared: Coordinator) -> None:
    address = urlsplit(shared.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as raw:
        head = (
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {shared.token}\r\n"
            "Content-Length: 1000000000000\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_directory_that_is_not_what_it_is_called_is_refused(http: httpx.Client) -> None:
    tree = a_tree({"train.py": b"code"})
    assert_problem(http.put(f"/trees/{DIGEST}", content=tree.listing), 422, "bad_tree")
    assert_problem(http.put(f"/trees/{digest_of(b'{}')}", content=b"{}"), 422, "bad_tree")
    outside = encode_list([replace(tree.files[0], path="../train.py")])
    assert_problem(http.put(f"/trees/{digest_of(outside)}", content=outside), 422, "bad_tree")
    assert_problem(http.put("/trees/short", content=b"code"), 422, "invalid_request")
    assert_problem(http.get(f"/trees/{DIGEST}"), 404, "not_found")
    assert_problem(http.post("/blocks", content=frame(b"code", DIGEST)), 422, "bad_stream")
    assert_problem(http.post("/blocks", content=frame(b"code", digest_of(b"code"))[:-1]), 422, "bad_stream")
    assert_problem(http.post("/blocks", content=b"x" * (STREAM_LIMIT_BYTES + 1)), 413, "too_large")
    assert_problem(http.post("/blocks/fetch", json={"blocks": ["../x"]}), 422, "invalid_request")
    assert_problem(http.post("/jobs", json=a_job(bundle=DIGEST)), 422, "bundle_missing")
    in_vain = a_job(bundle=DIGEST, image=f"nowhere@sha256:{DIGEST}")
    assert_problem(http.post("/jobs", json=in_vain), 422, "image_not_listed")


def test_only_what_is_missing_is_asked_for_and_comes_back(client: Client, http: httpx.Client) -> None:
    first = a_tree({"a": b"one", "b": b"two"})
    assert client.offer_tree(first.digest, first.listing)["missing"] == sorted(first.blocks)
    assert_problem(http.post("/jobs", json=a_job(bundle=first.digest)), 422, "bundle_missing")
    client.put_blocks(first.blocks)
    assert client.offer_tree(first.digest, first.listing) == {
        "digest": first.digest, "kept": True, "missing": [],
    }  # fmt: skip
    more = a_tree({"a": b"one", "b": b"two", "c": b"three"})
    assert client.offer_tree(more.digest, more.listing)["missing"] == [digest_of(b"three")]
    assert http.get(f"/trees/{first.digest}").content == first.listing
    stream = http.post("/blocks/fetch", json={"blocks": [*first.blocks, DIGEST]}).content
    assert dict(Unframing().feed(stream)) == first.blocks


PATHS = [
    ("GET", "/jobs"),
    ("POST", "/jobs"),
    ("GET", "/jobs/x"),
    ("GET", "/nodes"),
    ("GET", "/events"),
    ("GET", "/audit"),
    ("GET", "/campus"),
    ("GET", f"/trees/{DIGEST}"),
    ("PUT", f"/trees/{DIGEST}"),
    ("POST", "/blocks"),
    ("POST", "/blocks/fetch"),
    ("POST", "/join-tokens"),
    ("POST", "/agent/runs/x/log"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
    ("GET", "/enrol"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic YTpi", "Bearer", "Bearer " + "x" * 5000])
def test_nothing_is_open_without_a_token(
    shared: Coordinator, method: str, path: str, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = httpx.request(
        method, shared.url + "/api/v1" + path, headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S
    )
    assert_problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_nothing_is_open_outside_the_api_either(shared: Coordinator) -> None:
    for path in ("/", "/docs", "/openapi.json", "/metrics"):
        assert_problem(
            httpx.get(shared.url + path, trust_env=False, timeout=ANSWER_LIMIT_S), 401, "unauthenticated"
        )


def test_a_join_token_is_wrong_used_or_expired(shared: Coordinator, http: httpx.Client) -> None:
    def enrol(token: str, **changes: Any) -> httpx.Response:
        body = {"join_token": token, "node_name": "gamma", "lab": "lab-c", **changes}
        return httpx.post(shared.url + "/api/v1/enrol", json=body, trust_env=False, timeout=ANSWER_LIMIT_S)

    assert_problem(enrol("wrong"), 401, "join_token_unknown")
    token = http.post("/join-tokens").json()["join_token"]
    for name in ("", "../x", "a b", "-a", "x" * 64):
        assert_problem(enrol(token, node_name=name), 422, "invalid_request")
    first = enrol(token)
    assert first.status_code == 201
    assert first.json()["node_id"] == "gamma"
    assert_problem(enrol(token), 403, "join_token_used")
    assert_problem(enrol(shared.token), 401, "join_token_unknown")


def test_a_taken_name_gets_a_number(shared: Coordinator) -> None:
    assert shared.enrol("delta")[0] == "delta"
    assert shared.enrol("Delta")[0] == "delta-2"


def test_a_nodes_credential_opens_only_what_a_node_needs(shared: Coordinator) -> None:
    _, credential = shared.enrol("epsilon")
    headers = {"Authorization": f"Bearer {credential}"}
    with httpx.Client(
        base_url=shared.url + "/api/v1", headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S
    ) as node:
        assert node.get("/nodes").status_code == 200
        for method, path in [
            ("GET", "/jobs"),
            ("POST", "/join-tokens"),
            ("GET", "/events"),
            ("GET", "/audit"),
        ]:
            assert_problem(node.request(method, path), 403, "forbidden")
        assert_problem(node.post("/jobs", json=a_job()), 403, "forbidden")
        assert_problem(node.put(f"/trees/{DIGEST}", content=b"x"), 403, "forbidden")
        assert_problem(node.post("/agent/runs/unknown/log", content=b"x"), 404, "not_found")


def test_the_client_says_in_a_sentence_that_nobody_answers() -> None:
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{placeholder.getsockname()[1]}"
        with Client(url, "token") as client, pytest.raises(Unreachable, match="is it running"):
            client.make_join_token()


def test_the_client_knows_when_it_talks_to_somebody_else() -> None:
    def somebody(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>welcome</html>")

    client = Client("http://example.invalid", "t", transport=httpx.MockTransport(somebody))
    with client, pytest.raises(NotACoordinator, match="not a GPUnion coordinator"):
        client.nodes()
