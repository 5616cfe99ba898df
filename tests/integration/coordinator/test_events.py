"""Watching the decision log: from anywhere, across breaks, and never at the writer's cost."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from gpunion.sdk.client import Client
from tests.integration.coordinator.process import Coordinator, a_job
from tests.services import ANSWER_LIMIT_S


def test_a_watcher_sees_what_was_and_what_comes(shared: Coordinator, client: Client) -> None:
    first = client.submit(a_job())["job"]
    seen: list[dict[str, Any]] = []
    with shared.client() as watching:
        stream = watching.events(since=0)
        while first["id"] not in next(stream)["subjects"]:
            pass
        with shared.client() as other:
            second = other.submit(a_job())["job"]
        seen.append(next(stream))
        assert second["id"] in seen[0]["subjects"]
        assert seen[0]["reasons"][0]["code"] == "submitted"
        stream.close()


def test_a_stream_is_resumed_by_number(shared: Coordinator, client: Client) -> None:
    for _ in range(4):
        client.submit(a_job())
    numbers = [event["seq"] for event in itertools.islice(client.events(since=0), 4)]
    assert numbers == sorted(set(numbers))
    resumed = next(iter(client.events(since=numbers[1])))
    assert resumed["seq"] == numbers[2]
    headers = {"Last-Event-ID": str(numbers[2])}
    with client._http.stream("GET", "/events", params={"since": 0}, headers=headers) as answer:
        told = (line for line in answer.iter_lines() if line.startswith("id: "))
        assert next(told) == f"id: {numbers[3]}"


def test_a_watcher_goes_on_after_a_restart(coordinator: Coordinator) -> None:
    port = coordinator.start().url.rpartition(":")[2]
    with coordinator.client() as client:
        client.submit(a_job(name="before"))
        got: list[dict[str, Any]] = []
        enough = threading.Event()

        def watch() -> None:
            with coordinator.client() as watching:
                for event in watching.events(since=0):
                    got.append(event)
                    enough.set()
                    if len([found for found in got if found["event"] == "JobSubmitted"]) == 2:
                        return

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert enough.wait(ANSWER_LIMIT_S)
        coordinator.end()
        coordinator.start(GPUNION_COORDINATOR_PORT=port)
        client.submit(a_job(name="after"))
    watcher.join(ANSWER_LIMIT_S)
    assert not watcher.is_alive()
    assert [event["seq"] for event in got] == sorted({event["seq"] for event in got})


def test_pages_of_jobs_follow_each_other(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client:
        made = [client.submit(a_job(name=f"{number}"))["job"]["id"] for number in range(5)]
        assert made == sorted(made)
        first = client.jobs(limit=2)
        assert [job["id"] for job in first["jobs"]] == made[:2:-1]
        second = client.jobs(limit=2, cursor=first["next_cursor"])
        third = client.jobs(limit=2, cursor=second["next_cursor"])
        assert [job["id"] for job in second["jobs"] + third["jobs"]] == made[2::-1]
        assert third["next_cursor"] is None
        assert [page["total"] for page in (first, second, third)] == [5, 5, 5]
        oldest = client.jobs(limit=3, oldest_first=True)
        newest = client.jobs(limit=3, oldest_first=True, cursor=oldest["next_cursor"])
        assert [job["id"] for job in oldest["jobs"] + newest["jobs"]] == made
        assert newest["next_cursor"] is None
        client.stop(made[0])
        cancelled = client.jobs(phases=["cancelled", "failed"])["jobs"]
        assert [job["id"] for job in cancelled] == [made[0]]
