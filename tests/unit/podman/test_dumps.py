"""Dumps of containers, as far as they can be judged without an engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.guest_user import GuestUser
from gpunion.adapters.runtimes.podman import extra_memory as room
from gpunion.adapters.runtimes.podman.bind_mounts import restaged
from gpunion.adapters.runtimes.podman.confinement_check import not_confined
from gpunion.adapters.runtimes.podman.criu_errors import complaint_of
from gpunion.adapters.runtimes.podman.criu_options import SETTINGS_FILE, only_cgroup, tell_criu, with_settings
from gpunion.adapters.runtimes.podman.probing import MEMORY_FILE, gpu_driver, remember, remembered
from gpunion.adapters.runtimes.podman.restore_requirements import Recipe, recipe_of, unfit
from gpunion.domain.system_tier import SystemAbility

WORDS = [
    *("create", "--name", "gpunion-1", "--tmpfs", "/tmp:rw,size=1", "--mount"),
    *("type=bind,source=/srv/one,target=/usr,readonly", "--mount"),
    *('type=bind,"source=/srv/a,b",target=/gpunion/output', "--workdir", "/gpunion"),
    *(
        "--entrypoint",
        "/bin/sh",
        "localhost/image:1",
        "/gpunion/doors/enter",
        "tool",
        "--mount",
        "source=x,target=y",
    ),
]
USER = GuestUser(inside="1000:1000", words=("--uidmap", "0:1900000000:65536"))
RECIPE = recipe_of(WORDS, USER, (0,))


def test_a_recipe_says_what_has_to_be_around_a_guest() -> None:
    assert (
        Recipe(
            image="localhost/image:1",
            user="1000:1000 --uidmap 0:1900000000:65536",
            mounts=("/gpunion/output", "/tmp", "/usr"),
            gpu_indices=(0,),
        )
        == RECIPE
    )
    assert Recipe.from_json(RECIPE.to_json()) == RECIPE


def test_a_guest_that_was_parked_comes_back_with_room_for_what_was_on_its_gpu(tmp_path: Path) -> None:
    its_own = ["--entrypoint", "/bin/sh", "image", "train", "--memory", "100"]
    words = ["create", "--memory", "100", "--memory-swap", "100", "--cpus", "1.00", *its_own]
    wider = ["create", "--memory", "107", "--memory-swap", "107", "--cpus", "1.00", *its_own]
    assert room.widened(words, 7) == wider
    assert room.extra_of(tmp_path) == 0
    room.grant(tmp_path, 7)
    assert room.extra_of(tmp_path) == 7
    parked = replace(RECIPE, extra_bytes=7)
    assert Recipe.from_json(parked.to_json()) == parked
    assert unfit(parked, RECIPE) == ""


def test_and_does_not_come_where_there_is_no_such_room(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: {64 * 1024**2} kB\nMemAvailable: {10 * 1024**2} kB\n")
    assert room.why_not(8 * room.GIB, str(meminfo)) == ""
    assert "takes 9.0 GiB of memory until it is back there, and 8.0 GiB" in room.why_not(
        9 * room.GIB, str(meminfo)
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "image": "x"}'])
def test_what_is_no_recipe_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Recipe.from_json(text)


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (replace(RECIPE, image="other:1"), "image localhost/image:1"),
        (replace(RECIPE, user="60990:60990"), "ran as user 1000:1000"),
        (replace(RECIPE, gpu_indices=()), "had 1 GPU"),
        (replace(RECIPE, mounts=("/gpunion/output", "/tmp")), "saw /usr, which guests here do not see"),
        (replace(RECIPE, mounts=(*RECIPE.mounts, "/venv")), "see /venv, which it did not"),
    ],
)
def test_a_dump_is_refused_where_something_differs(here: Recipe, why: str) -> None:
    assert why in unfit(RECIPE, here)


def test_a_dump_does_not_care_which_gpu_it_has() -> None:
    assert unfit(RECIPE, replace(RECIPE, gpu_indices=(3,))) == ""


def test_every_bound_source_is_moved_to_the_stage_and_nothing_else_is() -> None:
    words, sources = restaged(WORDS, "/run/stage")
    assert sources == ["/srv/one", "/srv/a,b"]
    assert words[6:9:2] == [
        "type=bind,source=/run/stage/0,target=/usr,readonly",
        "type=bind,source=/run/stage/1,target=/gpunion/output",
    ]
    assert words[9:] == WORDS[9:]


def test_a_process_of_the_host_is_not_shut_in() -> None:
    assert "user" in not_confined([os.getpid()], os.geteuid() + 1)
    assert not_confined([os.getpid()], os.geteuid()) != ""
    assert not_confined([2**22 + 1], 0) == ""  # gone


def test_criu_is_quoted_with_the_cause_and_not_with_its_farewell() -> None:
    lines = [
        "(00.1) Some talk",
        "(00.2)      1: Error (criu/files-reg.c:1): File usr/lib/x has bad size 3 (expect 4)",
        "(00.3) Error (criu/cr-restore.c:2): Restoring FAILED.",
    ]
    assert complaint_of(lines) == "CRIU: File usr/lib/x has bad size 3 (expect 4)"
    assert complaint_of(["all is well"]) == ""


def test_another_gpu_driver_makes_it_another_machine(tmp_path: Path) -> None:
    said = tmp_path / "version"
    assert gpu_driver(said) == "none"
    said.write_text("580.95.05\n", encoding="ascii")
    assert gpu_driver(said) == "580.95.05"
    said.write_text("", encoding="ascii")
    assert gpu_driver(said) == "unknown"


def test_what_was_tried_is_remembered_until_the_machine_changes(tmp_path: Path) -> None:
    tried = SystemAbility(able=True, why_not="", kind="x86_64/criu-4.2.1")
    assert remembered(tmp_path, tried.kind) is None
    remember(tmp_path, tried)
    assert remembered(tmp_path, tried.kind) == tried
    assert remembered(tmp_path, "x86_64/criu-4.3") is None
    remember(tmp_path, SystemAbility(able=False, why_not="no iptables", kind=tried.kind))
    assert remembered(tmp_path, tried.kind) is None  # somebody may have mended it
    (tmp_path / MEMORY_FILE).write_text("rubbish", encoding="ascii")
    assert remembered(tmp_path, tried.kind) is None


def test_criu_is_told_the_new_container_and_what_the_machine_wants(tmp_path: Path) -> None:
    words = with_settings(WORDS, str(tmp_path))
    assert words[:3] == ["create", "--annotation", f"org.criu.config={tmp_path / SETTINGS_FILE}"]
    assert recipe_of(words, USER, (0,)) == RECIPE
    machine = tmp_path / "runc.conf"
    machine.write_bytes(b"# f\xfcr alle\nnetwork-lock skip")  # in whatever encoding
    tell_criu(str(tmp_path), "/machine.slice/libpod-1.scope", str(machine))
    told = (tmp_path / SETTINGS_FILE).read_bytes()
    assert told == b"# f\xfcr alle\nnetwork-lock skip\ncgroup-root /machine.slice/libpod-1.scope\n"
    tell_criu(str(tmp_path), "", str(tmp_path / "nowhere"))
    assert (tmp_path / SETTINGS_FILE).read_text() == ""


@pytest.mark.parametrize(
    ("text", "cgroup"),
    [
        ("0::/machine.slice/libpod-1.scope\n", "/machine.slice/libpod-1.scope"),
        ("4:memory:/libpod-1\n0::/libpod-1\n", ""),  # version 1, or both: runc tells CRIU itself
        ("1:name=systemd:/libpod-1\n", ""),
        ("", ""),
    ],
)
def test_a_cgroup_is_told_where_there_is_one_tree(
    text: str, cgroup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup").write_text(text)
    monkeypatch.setattr("gpunion.adapters.runtimes.podman.criu_options.CGROUPS_OF", f"{tmp_path}/cgroup")
    assert only_cgroup(7) == cgroup
