"""What an operator types."""

from __future__ import annotations

import json
from typing import Any

from gpunion.cli.config import config_path
from gpunion.sdk.errors import ApiProblem
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_problem


def a_node(**changes: Any) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": "alpha", "lab": "vision", "building": "", "phase": "sharing", "connected": True,
        "fingerprint": "f",
        "runtime": "sandbox", "sandboxed": True, "cpus": 8.0, "memory_bytes": 2**34, "uplink_bps": 1e9,
        "gpus": [
            {"index": index, "model": "A100", "memory_bytes": 40 * 2**30, "speed": 1.0, "declared": True,
             "compute_capability": "8.0", "cuda": "12.4", "driver": "550.54.15", "card": "", "profile": "",
             "run_id": run_id}
            for index, run_id in enumerate(("r", None))
        ],
        "terms": {"notice_s": 60.0}, "joined_at": "2026-01-01T00:00:00.000Z", "last_heard_at": None,
        "phase_since": "2026-01-01T00:00:00.000Z", "deadline_at": None, "departures": 0, "lent_gpu_s": 7200.0,
        "runs": ["r"],
    }  # fmt: skip
    return {**node, **changes}


def test_nodes_are_listed_with_what_they_lend(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.machines = [a_node(), a_node(id="beta", gpus=[], sandboxed=False, connected=False)]
    assert gpunion("nodes") == 0
    alpha, beta = gpunion.out.splitlines()[1:]
    assert "2 x A100 40 GiB" in alpha
    assert "1/2" in alpha
    assert "8.0" in alpha
    assert "12.4 (550.54.15)" in alpha
    assert "sharing (away), UNSANDBOXED" in beta
    assert "UNSANDBOXED" not in alpha
    assert gpunion("nodes", "--json") == 0
    assert json.loads(gpunion.out) == {"nodes": campus.machines}


def test_gpus_of_different_models_are_counted_apart(gpunion: Terminal, campus: CampusDouble) -> None:
    first, second = a_node()["gpus"]
    other = {**second, "model": "NVIDIA GeForce RTX 4090", "memory_bytes": 24 * 10**9}
    campus.machines = [a_node(gpus=[first, other])]
    assert gpunion("nodes") == 0
    assert "1 x A100 40 GiB, 1 x RTX 4090 24 GB" in gpunion.out


def test_a_machine_that_could_save_no_job_is_listed_with_the_reason(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.machines = [
        a_node(vault_trouble="not mounted. Next: mount it"),
        a_node(id="beta", disk="full"),
        a_node(id="gamma", disk="fine", phase="silent", connected=False),
    ]
    assert gpunion("nodes") == 0
    alpha, beta, gamma, below = gpunion.out.splitlines()[1:]
    assert "sharing, CANNOT SAVE  " in alpha
    assert "sharing, DISK FULL  " in beta
    assert "silent  " in gamma
    assert "over " in gamma.rpartition("  ")[2]
    assert below == "alpha gets no jobs that it could not save. It says: not mounted. Next: mount it"


def test_a_machine_that_left_is_shown_on_request_and_taken_off_the_list(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.machines = [a_node(), a_node(id="beta", phase="left")]
    assert gpunion("nodes") == 0
    assert "beta" not in gpunion.out
    assert gpunion("nodes", "--all") == 0
    assert "beta" in gpunion.out
    assert gpunion("nodes", "rm", "beta") == 0
    assert "beta is off the list" in gpunion.out
    assert [node["id"] for node in campus.machines] == ["alpha"]
    campus.refuses = a_problem(409, "node_in_use", "alpha: it stays on the list: it is joined (sharing)")
    assert gpunion("nodes", "rm", "alpha") == 5
    assert "it is joined" in gpunion.err


def test_an_isolated_machine_is_shown_with_its_reason_and_accepted_again(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.machines = [a_node(isolated_because="20 of its messages were refused within 60 s")]
    assert gpunion("nodes") == 0
    assert "ISOLATED" in gpunion.out
    assert "alpha is isolated: 20 of its messages were refused within 60 s." in gpunion.out
    assert "gpunion nodes accept alpha" in gpunion.out
    assert gpunion("nodes", "accept", "alpha") == 0
    assert "alpha is accepted" in gpunion.out
    assert gpunion("nodes") == 0
    assert "ISOLATED" not in gpunion.out


def test_an_empty_campus_says_how_a_machine_joins(gpunion: Terminal) -> None:
    assert gpunion("nodes") == 0
    assert "gpunion coordinator token" in gpunion.out


def test_a_join_token_comes_with_the_command_to_use_it(gpunion: Terminal) -> None:
    assert gpunion("coordinator", "token", "--expires", "10m") == 0
    assert "gpunion join http://campus.example --token join-600" in gpunion.out
    assert gpunion("coordinator", "token", "-q") == 0
    assert gpunion.out == "join-3600\n"
    assert gpunion("coordinator", "token", "--json") == 0
    assert json.loads(gpunion.out)["join_token"] == "join-3600"


def test_login_keeps_what_the_coordinator_accepts(gpunion: Terminal, campus: CampusDouble) -> None:
    assert gpunion("login", "http://campus.example/", "--token", "t") == 0
    path = config_path(gpunion.environment)
    assert path.read_text() == 'url = "http://campus.example"\ntoken = "t"\n'
    assert str(path) in gpunion.out


def test_what_the_api_says_to_get_is_told_as_a_command(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.refuses = ApiProblem(
        code="not_found",
        title="Not found",
        detail="there is no node x",
        next_step="GET /api/v1/nodes lists the nodes there are",
        status=404,
        body={},
    )
    assert gpunion("nodes") == 3
    assert "Next: gpunion nodes lists the nodes there are" in gpunion.err


def test_login_keeps_nothing_that_is_refused(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.refuses = a_problem(401, "unauthenticated", "the token is not known")
    assert gpunion("login", "http://campus.example", "--token", "t") == 4
    assert not config_path(gpunion.environment).exists()
    assert gpunion("login", "http://campus.example", "--token", "t", "--no-check") == 0
    assert config_path(gpunion.environment).exists()


def test_a_coordinator_is_not_started_with_settings_that_make_no_sense(gpunion: Terminal) -> None:
    assert gpunion("coordinator", "--listen", "nowhere") == 2
    assert "write HOST:PORT" in gpunion.err
    assert gpunion("coordinator", "--listen", "127.0.0.1:99999") == 2
    gpunion.environment["GPUNION_COORDINATOR_PROT"] = "1"
    assert gpunion("coordinator") == 2
    assert "did you mean 'port'?" in gpunion.err


def test_a_place_that_is_not_mounted_is_told_and_one_that_was_emptied_is_accepted(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.place_troubles = {"bucket": "its mark is not there. Next: mount it"}
    assert gpunion("places") == 0
    assert gpunion.out.splitlines()[-1] == "bucket is not there: its mark is not there. Next: mount it"
    assert gpunion("places", "accept", "bucket") == 0
    assert "bucket is what lies there now" in gpunion.out
    assert gpunion("places") == 0
    assert "is not there" not in gpunion.out
    assert gpunion("places", "accept", "bucket", "--json") == 0
    assert json.loads(gpunion.out)["name"] == "bucket"
