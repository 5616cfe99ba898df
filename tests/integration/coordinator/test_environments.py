"""The campus's environments over real HTTP: published, named by a job, refused, removed, kept."""

from __future__ import annotations

import pytest

from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from tests.integration.coordinator.process import a_job


def test_an_environment_is_published_named_and_removed(client: Client) -> None:
    added = client.add_environment("pytorch", "torch==2.4.0\nnumpy==2.1.0  # with it\n")
    assert (added["packages"], added["installed"], added["added_by"]) == (2, [], "admin")
    assert client.environments() == [added]
    client.enrol(client.make_join_token()["join_token"], "gamma")
    assert client.submit(a_job(packages="pytorch"))["job"]["packages"] == "pytorch"
    assert client.remove_environment("pytorch") == added
    assert client.environments() == []
    with pytest.raises(ApiProblem, match="publishes no environment pytorch") as gone:
        client.submit(a_job(packages="pytorch"))
    assert gone.value.code == "environment_not_published"
    with pytest.raises(ApiProblem, match="there is no environment pytorch"):
        client.remove_environment("pytorch")


def test_a_list_with_open_versions_and_a_job_with_two_sets_are_refused(client: Client) -> None:
    with pytest.raises(ApiProblem, match="it leaves versions open"):
        client.add_environment("loose", "torch\n")
    with pytest.raises(ApiProblem, match="one set of packages"):
        client.submit(a_job(packages="pytorch", image="torch:2.4"))
