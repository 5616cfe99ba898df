"""What an engine is asked for, without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.entry import entry_script
from gpunion.adapters.runtimes.containers.gpus import GpuWay, find_way, gpu_words
from gpunion.adapters.runtimes.containers.request import Confines, Request, create_words
from gpunion.adapters.runtimes.containers.runtime import container_name
from gpunion.adapters.runtimes.keeper.guest_dir import guest_paths
from gpunion.ports.runtime import GuestSpec

ROOT = Path("/state/guests/job-1-e1")


def words(*, gpus: tuple[int, ...] = (), way: GpuWay = GpuWay.DECLARED, cpus: float = 2.0) -> list[str]:
    spec = GuestSpec(
        run_id="job-1-e1",
        job_id="job-1",
        epoch=1,
        command=("python", "train.py"),
        environment={"SECRET": "hush"},
        gpu_indices=gpus,
        memory_bytes=1024**3,
        cpus=cpus,
        resume=False,
        work_source=None,
    )
    confines = Confines(
        engine_words=("--userns", "keep-id"),
        gpus=way,
        cpus_max=4.0,
        open_files_max=1024,
        processes_max=512,
    )
    request = Request(
        name="gpunion-x",
        image="image@sha256:1",
        program=("python", "train.py"),
        readable=((Path("/a,b"), Path("/usr")),),
        hidden=(Path("/s"),),
    )
    return create_words(spec, guest_paths(ROOT), request, confines, "60706:60706")


def has(found: list[str], *wanted: str) -> bool:
    return any(tuple(found[at : at + len(wanted)]) == wanted for at in range(len(found)))


@pytest.mark.parametrize(
    "wanted",
    [
        ("--pull", "never"),
        ("--user", "60706:60706"),
        ("--userns", "keep-id"),
        ("--network", "none"),
        ("--ipc", "private"),
        ("--cgroupns", "private"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--read-only",),
        ("--pids-limit", "512"),
        ("--memory", str(1024**3)),
        ("--memory-swap", str(1024**3)),
        ("--cpus", "2.00"),
        ("--ulimit", "nofile=1024:1024"),
        ("--ulimit", "nproc=512:512"),
        ("--mount", "type=bind,source=/state/guests/job-1-e1/output,target=/gpunion/output"),
        ("--mount", 'type=bind,"source=/a,b",target=/usr,readonly'),
        ("--tmpfs", "/s:ro,nosuid,nodev,noexec,size=4k"),
    ],
)
def test_every_guest_is_shut_in_by(wanted: tuple[str, ...]) -> None:
    assert has(words(), *wanted)


def test_nothing_opens_the_host() -> None:
    found = words(gpus=(0,), way=GpuWay.CDI)
    assert not {"--privileged", "--cap-add", "host", "unconfined", "--publish"} & set(found)
    assert not [word for word in found if "docker.sock" in word]


def test_a_guests_variables_are_not_among_the_words() -> None:
    assert not [word for word in words() if "hush" in word]


def test_a_guest_is_not_promised_more_processors_than_there_are() -> None:
    assert has(words(cpus=64.0), "--cpus", "4.00")


@pytest.mark.parametrize("way", list(GpuWay))
def test_without_a_grant_there_is_no_device_and_the_hook_is_told_so(way: GpuWay) -> None:
    assert gpu_words(way, ()) == ["--env", "NVIDIA_VISIBLE_DEVICES=void"]
    assert "--device" not in words(way=way)
    assert "--gpus" not in words(way=way)


def test_by_cdi_exactly_the_granted_gpus_are_named() -> None:
    assert gpu_words(GpuWay.CDI, (1, 3)) == [
        *("--env", "NVIDIA_VISIBLE_DEVICES=void"),
        *("--device", "nvidia.com/gpu=1", "--device", "nvidia.com/gpu=3"),
    ]


def test_by_device_requests_exactly_the_granted_gpus_are_named() -> None:
    assert gpu_words(GpuWay.REQUESTS, (1, 3)) == ["--gpus", '"device=1,3"']


def test_declared_gpus_open_nothing() -> None:
    assert gpu_words(GpuWay.DECLARED, (0,)) == ["--env", "NVIDIA_VISIBLE_DEVICES=void"]


def test_cdi_is_used_where_the_engine_knows_it_and_a_specification_names_gpus(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text("cdiVersion: 0.6.0\nkind: nvidia.com/gpu\n")
    assert find_way(cdi=True, requests=False, directories=(str(tmp_path),)) is GpuWay.CDI
    assert find_way(cdi=False, requests=False, directories=(str(tmp_path),)) is GpuWay.DECLARED
    assert find_way(cdi=True, requests=False, directories=(str(tmp_path / "none"),)) is GpuWay.DECLARED


def test_the_first_program_waits_at_the_gate_before_anything_of_the_guests_happens() -> None:
    lines = entry_script({"A": "b", "PATH": "/x"}, Path("/gpunion/doors"), Path("/w")).splitlines()
    assert lines[:2] == ["#!/bin/sh", "read -r _ < /gpunion/doors/gate"]
    assert lines[-2:] == ['(exec "$@") < /dev/null > /gpunion/doors/output 2>&1', "exit $?"]
    assert 'export PATH=/x"${PATH:+:$PATH}"' in lines


def test_two_state_directories_on_one_machine_do_not_share_a_containers_name() -> None:
    assert container_name("r", Path("/a/guests/r")) != container_name("r", Path("/b/guests/r"))
