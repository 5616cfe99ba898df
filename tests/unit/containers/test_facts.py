"""What is concluded from an engine's word about itself, and from how a container ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.containers.container_command import complaint
from gpunion.adapters.runtimes.containers.exit_reason import Ending, verdict
from gpunion.adapters.runtimes.docker import facts_of as docker_facts
from gpunion.adapters.runtimes.docker import mend_of as docker_mend
from gpunion.adapters.runtimes.docker import own_sockets
from gpunion.adapters.runtimes.podman.runtime import mend_of as podman_mend
from gpunion.adapters.runtimes.podman.seccomp import NAMESPACE_CALLS, stricter
from gpunion.adapters.runtimes.podman.users import guest_user, has_own_cgroup


def docker_info(**more: Any) -> dict[str, Any]:
    return {
        "ServerVersion": "20.10",
        "SecurityOptions": ["name=seccomp,profile=default"],
        "Runtimes": {},
    } | more


def test_under_a_root_agent_each_guest_is_a_user_of_its_own() -> None:
    assert docker_facts(docker_info(), 0, 0).user.own


def test_where_docker_maps_users_the_guests_directories_belong_to_the_mapped_one() -> None:
    info = docker_info(SecurityOptions=["name=userns"], DockerRootDir="/var/lib/docker/100000.100000")
    user = docker_facts(info, 0, 0).user
    assert (user.inside, user.host_id) == ("1000:1000", 101000)


def test_a_rootless_docker_maps_its_root_to_the_agents_user() -> None:
    user = docker_facts(docker_info(SecurityOptions=["name=rootless"]), 1000, 1000).user
    assert (user.inside, user.host_id) == ("0:0", None)


def test_limits_that_docker_has_no_means_for_are_named() -> None:
    assert (
        docker_facts(docker_info(MemoryLimit=True, CpuCfsQuota=True, PidsLimit=True), 0, 0).unenforced == ()
    )
    assert docker_facts(docker_info(MemoryLimit=False, PidsLimit=False), 0, 0).unenforced == (
        "memory",
        "process",
    )


def test_a_rootless_podman_keeps_the_agents_user() -> None:
    user = guest_user(1000, 1001, maps_users=True)
    assert (user.inside, user.words, user.host_id) == ("1000:1001", ("--userns", "keep-id"), None)


def test_a_user_without_ids_beside_its_own_is_one_alone_in_podman() -> None:
    user = guest_user(1000, 1001, maps_users=False)
    assert (user.inside, user.words, user.host_id) == ("0:0", (), None)
    assert "user 1000 outside" in user.described


def test_a_container_has_a_cgroup_of_its_own_where_one_bears_its_id() -> None:
    assert has_own_cgroup("c4ae30006fd40::/user.slice/user@1000.service/libpod-c4ae30006fd4ab12.scope")
    assert not has_own_cgroup("c4ae30006fd49:name=systemd:/\n0::/user.slice/user-1000.slice/session-2.scope")


def test_who_has_no_root_is_told_whom_to_ask_for_what() -> None:
    assert "uidmap" in podman_mend('exec: "newuidmap": executable file not found in $PATH')
    assert "make room" in podman_mend("writing blob: no space left on device")
    assert "sudo" not in docker_mend("cannot connect to the docker daemon", 0)
    for said in ("permission denied while trying to connect", "cannot connect to the docker daemon"):
        assert "dockerd-rootless-setuptool.sh" in docker_mend(said, 1000)


def test_a_docker_daemon_of_the_users_own_is_found_unless_another_was_named(tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    here = {"XDG_RUNTIME_DIR": str(tmp_path)}
    nobody = 4_000_000_000
    assert own_sockets(here, nobody) == [f"{tmp_path}/docker.sock"]
    assert own_sockets(here | {"DOCKER_HOST": "tcp://127.0.0.1:1"}, nobody) == []
    assert own_sockets({}, nobody) == []
    assert own_sockets(here, 0) == []


def test_warnings_that_come_with_every_call_do_not_hide_what_went_wrong() -> None:
    warned = 'time="now" level=warning msg="not a shared mount"'
    assert complaint(f"{warned}\nError: no space left") == "Error: no space left"
    assert complaint(warned) == warned


def test_a_podman_that_can_map_users_gives_a_guest_of_root_a_namespace() -> None:
    user = guest_user(0, 0, maps_users=True)
    assert (user.inside, user.host_id) == ("1000:1000", 1_900_001_000)
    assert user.words[:2] == ("--uidmap", "0:1900000000:65536")
    shared = guest_user(0, 0, maps_users=False)
    assert (shared.inside, shared.words, shared.host_id) == ("60990:60990", (), 60990)


@pytest.mark.parametrize(
    ("code", "why", "out_of_memory", "gone", "wanted"),
    [
        (0, "", False, False, (0, "exited")),
        (3, "deadline", False, False, (3, "exited")),  # it was faster than the kill
        (137, "deadline", False, False, (137, "deadline")),
        (137, "", True, False, (137, "out_of_memory")),
        (137, "", False, False, (137, "signalled")),
        (143, "", False, False, (143, "signalled")),
        (143, "", False, True, (143, "lost")),
        (137, "killed_by_owner", False, True, (137, "killed_by_owner")),
        (None, "", False, True, (137, "lost")),
        (None, "lease_ended", False, True, (137, "lease_ended")),
    ],
)
def test_an_end_is_told_by_what_the_engine_says_and_what_was_wanted(
    code: int | None, why: str, out_of_memory: bool, gone: bool, wanted: tuple[int, str]
) -> None:
    ending = Ending(exit_code=code, out_of_memory=out_of_memory, engine_was_gone=gone, why_ended=why)
    assert verdict(ending) == wanted


@pytest.mark.parametrize(
    ("code", "reason"), [(143, "lost"), (137, "lost"), (1, "lost"), (0, "exited"), (85, "exited")]
)
def test_a_guest_whose_machine_is_shut_down_has_not_failed(code: int, reason: str) -> None:
    ending = Ending(
        exit_code=code, out_of_memory=False, engine_was_gone=False, why_ended="", asked_to_leave=True
    )
    assert verdict(ending) == (code, reason)


def test_the_stricter_profile_allows_no_namespace_and_still_makes_threads() -> None:
    given = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [
            {"names": ["read", *sorted(NAMESPACE_CALLS)], "action": "SCMP_ACT_ALLOW", "args": []},
            {"names": ["setns"], "action": "SCMP_ACT_ERRNO", "args": []},
        ],
    }
    rules = stricter(given)["syscalls"]
    allowed = {name: rule for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert set(allowed) == {"read", "clone"}
    assert allowed["clone"]["args"][0]["value"] == 0x7E020000
    refused = [name for rule in rules if rule["action"] == "SCMP_ACT_ERRNO" for name in rule["names"]]
    assert sorted(refused) == sorted(NAMESPACE_CALLS - {"clone"})
