"""Quotas over HTTP: set, felt by a job, told, lifted, and kept across a restart."""

from __future__ import annotations

import signal

import httpx

from tests.integration.coordinator.process import Coordinator, a_job
from tests.services import ANSWER_LIMIT_S


def test_a_quota_is_felt_told_kept_and_lifted(coordinator: Coordinator) -> None:
    coordinator.start()
    headers = {"Authorization": f"Bearer {coordinator.token}"}
    with (
        coordinator.client() as client,
        httpx.Client(
            base_url=coordinator.url + "/api/v1", headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S
        ) as http,
        coordinator.node(),
    ):
        assert client.set_quota("user:ada", 0)["gpus"] == 0
        waiting = client.submit(a_job(user="ada"))["job"]
        assert waiting["phase"] == "pending"
        why = client.why(waiting["id"])
        assert [reason["code"] for reason in why["waits"]] == ["quota_too_small"]
        for bad in ("ada", "user:", "team:x", "user:a*b"):
            assert http.put(f"/quotas/{bad}", json={"gpus": 1}).status_code == 422
        assert http.put("/quotas/user:ada", json={"gpus": -1}).status_code == 422
        assert http.delete("/quotas/lab:nobody").status_code == 404
        assert client.set_quota("user:*", 0, priority="high")["priority"] == "high"
        urgent = client.submit(a_job(user="bob", priority="high"))["job"]
        assert [one["code"] for one in client.why(urgent["id"])["waits"]] == ["high_quota_too_small"]
        assert client.submit(a_job(user="bob"))["job"]["phase"] != "pending"
        assert client.lift_quota("user:*", priority="high")["gpus"] == 0
        assert http.put("/quotas/user:ada?priority=low", json={"gpus": 1}).status_code == 422
        late = {**a_job(), "finish_within_s": 60.0}
        assert http.post("/jobs", json=late).status_code == 422
    coordinator.end(signal.SIGKILL)
    coordinator.start()
    with coordinator.client() as client:
        listed = client.quotas()
        assert [(quota["name"], quota["gpus"]) for quota in listed["quotas"]] == [("user:ada", 0)]
        client.lift_quota("user:ada")
        assert client.quotas()["quotas"] == []
