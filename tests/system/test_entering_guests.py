"""Somebody goes into a job that runs: to a port of it, and to a terminal."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo.campus import Lab
from gpunion.sdk.errors import ApiProblem
from gpunion.sdk.streams import ByteStream, Streams
from tests.system.scene import PATIENT, Scene

PORT = 6006
SERVER = ["python3", "-m", "http.server", "--bind", "127.0.0.1", str(PORT)]
LIMIT_S = 60.0


@pytest.fixture(
    params=[
        pytest.param("sandbox", marks=pytest.mark.requires("bwrap")),
        pytest.param("podman", marks=pytest.mark.requires("podman")),
    ]
)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene.open(tmp_path / "campus", labs=(), timing=PATIENT)
    try:
        scene.campus.join(Lab(name="a", lab="A", model="TEST", memory_gib=8, speed=1.0))
        scene.campus.start_agent("a", GPUNION_RUNTIME=request.param)
        yield scene
    finally:
        scene.close()


def test_a_port_and_a_terminal_are_inside_the_guest_and_its_owner_may_forbid_them(lab: Scene) -> None:
    with lab.campus.client() as client:
        job = {"name": "served", "command": SERVER, "environment": {"MINE": "yes"}}
        job_id = client.submit({**job, "resources": {"cpus": 0.1, "memory": "256MiB"}})["job"]["id"]
    lab.until_phase(job_id, "running")
    streams = Streams(lab.campus.url, lab.campus.token)

    asyncio.run(_reach_port(streams, job_id))
    asyncio.run(_type_in_terminal(streams, job_id))
    with pytest.raises(ApiProblem, match="nothing answers at port 7"):
        asyncio.run(_opened(streams, job_id, "port:7"))
    with pytest.raises(ApiProblem, match="none of lab, ssh"):
        asyncio.run(_opened(streams, job_id, "/etc/shadow"))

    owner_client.change_terms(lab.campus.state_dir("a"), {"sessions": "no"})
    with pytest.raises(ApiProblem, match="allows nobody to work in guests"):
        asyncio.run(_opened(streams, job_id, "terminal:24x80"))


async def _opened(streams: Streams, job_id: str, to: str) -> ByteStream:
    async with asyncio.timeout(LIMIT_S):
        return await streams.into_job(job_id, to)


async def _reach_port(streams: Streams, job_id: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                stream = await streams.into_job(job_id, f"port:{PORT}")
                break
            except ApiProblem:
                await asyncio.sleep(0.2)  # its server is not up yet
        await stream.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := await stream.read():
            answer += piece
    assert answer.startswith(b"HTTP/1.0 200")


async def _type_in_terminal(streams: Streams, job_id: str) -> None:
    stream = await _opened(streams, job_id, "terminal:33x101")
    words = b"echo who=$(id -un) of=$GPUNION_JOB_ID mine=$MINE size=$(stty size); hostname; exit\r"
    await stream.write(struct.pack(">cH", b"d", len(words)) + words)
    said = b""
    async with asyncio.timeout(LIMIT_S):
        while piece := await stream.read():
            said += piece
    assert f"who=guest of={job_id} mine=yes size=33 101".encode() in said, said
    assert b"\r\ngpunion\r\n" in said
