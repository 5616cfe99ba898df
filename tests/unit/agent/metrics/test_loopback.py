"""A machine's own page: on the loopback, in the format Prometheus reads, and only where it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from gpunion.adapters.prometheus import PrometheusMetrics
from gpunion.agent.metrics.loopback import Loopback
from gpunion.ports.gpu_series import UTILISATION
from gpunion.ports.metrics import Metrics, Sample, Uncounted

SAMPLE = Sample(series=UTILISATION, value=0.5, labels=("GPU-1", "A100", "alpha"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.asynccontextmanager
async def serving(metrics: Metrics) -> AsyncIterator[int]:
    port = free_port()
    task = asyncio.create_task(Loopback(port, metrics, lambda: [SAMPLE]).run())
    try:
        yield port
    finally:
        task.cancel()
        await asyncio.wait([task])


async def asked(port: int, path: str = "/metrics") -> str:
    streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def is_open() -> bool:
        with contextlib.suppress(ConnectionRefusedError):
            streams.append(await asyncio.open_connection("127.0.0.1", port))
        return bool(streams)

    while not await is_open():
        await asyncio.sleep(0)
    reader, writer = streams[0]
    writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_the_page_shows_every_gpu_of_the_machine() -> None:
    async with serving(PrometheusMetrics(())) as port:
        answer = await asked(port)
        assert answer.startswith("HTTP/1.1 200 OK\r\n")
        assert 'gpunion_gpu_utilisation_ratio{model="A100",node="alpha",uuid="GPU-1"} 0.5' in answer
        assert (await asked(port, "/")).startswith("HTTP/1.1 404")


async def test_what_is_missing_is_said() -> None:
    async with serving(Uncounted("there is no such package here")) as port:
        answer = await asked(port)
    assert answer.startswith("HTTP/1.1 503")
    assert "no such package" in answer


@pytest.mark.parametrize("taken", [False, True])
async def test_a_port_that_is_not_named_or_is_taken_ends_nobody(taken: bool) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = int(listener.getsockname()[1]) if taken else 0
        task = asyncio.create_task(Loopback(port, PrometheusMetrics(()), list).run())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(task)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
