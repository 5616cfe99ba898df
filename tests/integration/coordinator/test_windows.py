"""Windows over HTTP: what a job bids for is changed while it waits, and whoever watches is told."""

from __future__ import annotations

import pytest

from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from tests.integration.coordinator.process import Coordinator, a_job


def test_the_owner_of_a_job_changes_what_it_bids_for(shared: Coordinator, client: Client) -> None:
    held = a_job(name="held", atomizable=True, windows={"bid": False, "shortest_s": 600})
    job = client.submit(held)["job"]
    assert [why["code"] for why in client.why(job["id"])["waits"]] == ["bids_nothing"]
    answer = client.change_bids(job["id"], {"bid": True, "longest_s": 1800, "not_on": ["b"]})
    assert [reason["code"] for reason in answer["reasons"]] == ["bids_changed"]
    assert client.job(job["id"])["windows"] == {
        "shortest_s": 600.0,
        "vram": "learned",
        "safe_every": 1,
        "longest_s": 1800.0,
        "not_on": ["b"],
        "bid": True,
    }
    assert client.change_bids(job["id"], {})["reasons"] == []


def test_a_change_that_leaves_no_window_or_changes_no_bids_is_refused(client: Client) -> None:
    job = client.submit(a_job(name="held", atomizable=True, windows={"shortest_s": 600}))["job"]
    with pytest.raises(ApiProblem, match="it could bid for none") as refused:
        client.change_bids(job["id"], {"longest_s": 60})
    assert (refused.value.status, refused.value.code) == (422, "no_window_left")
    rigid = client.submit(a_job(name="rigid"))["job"]
    with pytest.raises(ApiProblem) as refused:
        client.change_bids(rigid["id"], {"bid": False})
    assert (refused.value.status, refused.value.code) == (409, "not_in_windows")
    client.stop(job["id"])
    with pytest.raises(ApiProblem) as refused:
        client.change_bids(job["id"], {"bid": False})
    assert (refused.value.status, refused.value.code) == (409, "job_over")
    with pytest.raises(ApiProblem) as refused:
        client.change_bids("job-of-nobody", {"bid": False})
    assert refused.value.status == 404


def test_who_watches_windows_is_told_who_got_one_and_what_there_are_now(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client, coordinator.client() as watching, coordinator.node():
        stream = watching.window_events()
        name, first = next(stream)
        assert name == "windows"
        assert set(first) == {"policy", "turn_s", "windows"}
        job = client.submit(a_job(name="watched", atomizable=True))["job"]
        news: list[str] = []
        for name, told in stream:
            if name == "news" and told["job_id"] == job["id"]:
                assert told["job_name"] == "watched"
                news.append(told["code"])
            if name == "windows" and any(one["job_id"] == job["id"] for one in told["windows"]):
                break
        assert news[0] == "placed"
        assert client.windows()["windows"][0]["node_id"] == told["windows"][0]["node_id"]


def test_a_stream_of_windows_ends_with_the_coordinator(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as watching:
        stream = watching.window_events()
        next(stream)
        coordinator.end()
        assert [name for name, _ in stream if name != "windows"] == []
