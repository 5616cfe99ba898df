"""Guests of a real sandbox and of real containers stand still and go on; only the driver is made up."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.containers.freezing import ContainerFreezer, limits_of
from gpunion.adapters.runtimes.docker import open_docker
from gpunion.adapters.runtimes.keeper import control_files as control
from gpunion.adapters.runtimes.keeper.freezer import GuestFreezer
from gpunion.adapters.runtimes.keeper.kept_runtime import KeptRuntime
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.agent.machine.parking import GuestParker, NotParked, NotUnparked, free_memory
from gpunion.agent.program.gpu_release import AskedAside
from gpunion.domain.resources import GIB, Gpu
from gpunion.ports.gpus import GpuDevice, GpuSight, Look
from gpunion.ports.parking import CannotMove
from gpunion.ports.runtime import ExitReason, GuestPaths, GuestSpec

PATIENCE_S = 60.0
GRANTED_BYTES = 256 * 1024**2
COUNTS = """
i=0
while :; do i=$((i+1)); echo $i > "$GPUNION_OUTPUT_DIR/count.new"
mv "$GPUNION_OUTPUT_DIR/count.new" "$GPUNION_OUTPUT_DIR/count"; sleep 0.01; done
"""

# Speaks the library's part, over memory that is a file: there while it is "on the GPU".
STEPS_ASIDE = """
import os, time
from pathlib import Path
from gpunion.sdk.job.aside import StepsAside
from gpunion.sdk.job.messages import Mailbox

here = Path(os.environ["GPUNION_OUTPUT_DIR"])

class OneFile:
    def set_aside(self, wanted):
        (here / "on-gpu").unlink()
        return 7
    def bring_back(self):
        (here / "on-gpu").touch()

(here / "on-gpu").touch()
mailbox, memory, step = Mailbox(), OneFile(), 0
aside = StepsAside(mailbox, lambda: memory)
while True:
    aside.between_steps()
    mailbox.tell_progress(step, 1_000_000)
    step += 1
    (here / "count.new").write_text(str(step))
    (here / "count.new").rename(here / "count")
    time.sleep(0.01)
"""


@dataclass
class FakeGpuMemory:
    """Says that every process computes, and remembers what was moved."""

    on_host: tuple[int, ...] = ()
    trouble: str = ""
    wont_go_back: str = ""
    bug: bool = False
    left_behind: Callable[[], bool] = lambda: True  # is something on the GPU when the driver begins?
    found: list[bool] = field(default_factory=list)

    def why_not(self, uuids: Sequence[str]) -> str:
        return "its GPU is a MIG slice" if any(uuid.startswith("MIG") for uuid in uuids) else ""

    def computing(self, pids: frozenset[int]) -> tuple[int, ...]:
        return tuple(sorted(pids))

    def to_host(self, pids: Sequence[int], limit_s: float) -> None:
        self.found.append(self.left_behind())
        if self.bug:
            raise OSError("no process can be started")
        if self.trouble:
            raise CannotMove(self.trouble)
        self.on_host = tuple(pids)

    def to_gpu(self, pids: Sequence[int], limit_s: float) -> None:
        if self.wont_go_back:
            raise CannotMove(self.wont_go_back)
        assert self.on_host in ((), tuple(pids))
        self.on_host = ()


@dataclass
class FakeGpus:
    uuid: str = "GPU-0"
    used_bytes: int | None = 8 * GIB
    trouble: str = ""
    watched: bool = True

    def describe(self) -> str:
        return "made up"

    def inventory(self) -> tuple[Gpu, ...]:
        return ()

    def device(self, index: int) -> GpuDevice:
        return GpuDevice(index=index, uuid=self.uuid, nodes=())

    async def look(self) -> Look:
        sight = GpuSight(index=0, memory_used_bytes=self.used_bytes)
        return Look(at_s=0.0, gpus=(sight,), trouble=self.trouble)

    async def close(self) -> None:
        return


SHUT_IN: dict[str, tuple[Callable[[Path], KeptRuntime], type[GuestFreezer]]] = {
    "sandbox": (lambda folder: SandboxRuntime(folder, allow_unsandboxed=True), GuestFreezer),
    "docker": (open_docker, ContainerFreezer),
    "podman": (open_podman, ContainerFreezer),
}
EVERYWHERE = [
    "sandbox",
    pytest.param("docker", marks=pytest.mark.requires("docker")),
    pytest.param("podman", marks=pytest.mark.requires("podman")),
]


@dataclass
class House:
    folder: Path
    memory: FakeGpuMemory = field(default_factory=FakeGpuMemory)
    gpus: FakeGpus = field(default_factory=FakeGpus)
    allowed_bytes: int | None = None
    free_bytes: int = 64 * GIB
    command: tuple[str, ...] = ("sh", "-c", COUNTS)
    shut_in: str = "sandbox"

    def __post_init__(self) -> None:
        open_runtime, self.freezer = SHUT_IN[self.shut_in]
        self.runtime = open_runtime(self.folder)
        control_dir = self.folder / "guests" / "job-e1" / "control"
        self.program = AskedAside(control, control_dir, self.nudge)
        self.parker = self.new_agent()
        self.count = self.folder / "guests" / "job-e1" / "output" / "count"

    async def nudge(self) -> None:
        await self.runtime.signal("job-e1", signal.SIGUSR1)

    def new_agent(self) -> GuestParker:
        return GuestParker(
            freezer=self.freezer(self.folder),
            memory=self.memory,
            gpus=self.gpus,
            allowed_bytes=lambda: self.allowed_bytes,
            free_bytes=lambda: (self.free_bytes, 64 * GIB),
        )

    async def begin(self) -> None:
        spec, _ = await self.prepared()
        await self.runtime.start(spec)
        await until(self.counted)

    async def prepared(self) -> tuple[GuestSpec, GuestPaths]:
        spec = GuestSpec(
            run_id="job-e1",
            job_id="job",
            epoch=1,
            command=self.command,
            environment={},
            gpu_indices=(),
            memory_bytes=GRANTED_BYTES,
            cpus=1.0,
            resume=False,
            work_source=None,
        )
        paths = await self.runtime.prepare(spec)
        await self.runtime.limit("job-e1", boot_s() + 600, None)
        return spec, paths

    def counted(self) -> int:
        return int(self.count.read_text() or 0) if self.count.exists() else 0

    async def park(self) -> None:
        await self.parker.park("job-e1", (0,), (), PATIENCE_S / 2, self.program)

    async def unpark(self) -> None:
        await self.parker.unpark("job-e1", self.program)

    async def stands_still(self) -> bool:
        before = self.counted()
        await asyncio.sleep(0.1)
        return self.counted() == before

    def extra_memory(self) -> str:
        return (self.folder / "guests" / "job-e1" / "extra-memory.json").read_text()

    async def end(self) -> None:
        await self.runtime.kill("job-e1", ExitReason.STOPPED)
        await self.runtime.wait_exit("job-e1")
        await self.runtime.remove("job-e1")


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def until(look: Callable[[], object]) -> None:
    while not look():  # the caller bounds it
        await asyncio.sleep(0.02)


def play(folder: Path, story: Callable[[House], object], **house: object) -> None:
    async def whole() -> None:
        here = House(folder=folder, **house)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await here.begin()
                await story(here)  # type: ignore[misc]
        finally:
            await here.end()

    asyncio.run(whole())


@pytest.mark.parametrize("shut_in", EVERYWHERE)
def test_a_parked_guest_stands_still_and_goes_on_where_it_stood(tmp_path: Path, shut_in: str) -> None:
    async def story(house: House) -> None:
        await house.park()
        assert house.memory.on_host
        assert await house.stands_still()
        stood_at = house.counted()
        # A new agent knows how to bring it back, and parking it again changes nothing.
        house.parker = house.new_agent()
        await house.runtime.guests()
        await house.runtime.limit("job-e1", boot_s() + 600, None)  # its lease is renewed all the while
        await house.park()
        assert await house.stands_still()
        await house.unpark()
        assert house.memory.on_host == ()
        await until(lambda: house.counted() > stood_at + 3)
        assert GuestFreezer(house.folder).note("job-e1") is None

    play(tmp_path, story, shut_in=shut_in)


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({}, None),
        ({"trouble": "the driver gives no reason"}, NotParked),
        ({"bug": True}, OSError),
    ],
)
def test_a_program_that_steps_aside_leaves_the_driver_nothing_and_comes_back(
    tmp_path: Path, trouble: dict[str, Any], told: type[Exception] | None
) -> None:
    on_gpu = tmp_path / "guests" / "job-e1" / "output" / "on-gpu"
    memory = FakeGpuMemory(left_behind=on_gpu.exists, **trouble)

    async def story(house: House) -> None:
        progress = house.program.control_dir / "progress.json"
        await until(lambda: progress.exists() and "true" in progress.read_text())
        assert on_gpu.exists()
        if told is not None:
            with pytest.raises(told):
                await house.park()
            assert house.freezer(house.folder).note("job-e1") is None
        else:
            await house.park()
            assert await house.stands_still()
            assert not on_gpu.exists()
            house.program = replace(house.program)  # an agent that was not there when it was asked
            await house.unpark()
        assert memory.found == [False]
        await until(on_gpu.exists)
        before = house.counted()
        await until(lambda: house.counted() > before)
        await until(lambda: not list(house.program.control_dir.glob("*aside*")))
        await until(lambda: '"extra_bytes": 0' in house.extra_memory())

    play(tmp_path, story, memory=memory, command=("python3", "-c", STEPS_ASIDE))


@pytest.mark.parametrize("shut_in", EVERYWHERE)
def test_a_frozen_guest_is_ended_by_its_deadline(tmp_path: Path, shut_in: str) -> None:
    async def story(house: House) -> None:
        await house.park()
        await house.runtime.limit("job-e1", None, boot_s() + 0.2)
        ended = await house.runtime.wait_exit("job-e1")  # its keeper needs nobody for this
        assert ended.exit_reason is ExitReason.DEADLINE

    play(tmp_path, story, shut_in=shut_in)


@pytest.mark.parametrize("shut_in", EVERYWHERE[1:])
def test_a_container_may_take_more_while_it_is_parked_and_not_after(tmp_path: Path, shut_in: str) -> None:
    async def story(house: House) -> None:
        pids = house.freezer(house.folder).processes("job-e1")
        memory, cpu = limits_of(pids, "memory"), limits_of(pids, "cpu")
        if not memory or not cpu:
            pytest.skip("its engine limits nothing here")

        def limits() -> tuple[set[int], list[str]]:
            words = [Path(file).read_text().split()[0] for file in cpu]
            return {int(Path(file).read_text()) for file in memory}, words

        granted = limits()
        assert granted == ({GRANTED_BYTES}, ["100000"])
        await house.park()
        more_memory, cores = limits()
        assert min(more_memory) > 8 * GIB
        assert set(cores) <= {"-1", "max"}
        await house.unpark()
        assert limits() == granted

    play(tmp_path, story, shut_in=shut_in)


@pytest.mark.parametrize(
    ("house", "because"),
    [
        ({"free_bytes": 9 * GIB}, r"8\.0 GiB on its GPUs, and 5\.8 GiB of memory may be used"),
        ({"allowed_bytes": 4 * GIB}, r"4\.0 GiB of memory may be used"),
        ({"gpus": FakeGpus(uuid="MIG-7")}, "MIG slice"),
        ({"gpus": FakeGpus(used_bytes=None)}, "cannot be seen: the driver does not say"),
        ({"gpus": FakeGpus(trouble="it hangs")}, "cannot be seen: it hangs"),
        ({"memory": FakeGpuMemory(trouble="the driver gives no reason")}, "the driver gives no reason"),
    ],
)
def test_what_cannot_be_parked_runs_on_and_the_reason_is_told(
    tmp_path: Path, house: dict[str, object], because: str
) -> None:
    async def story(here: House) -> None:
        with pytest.raises(NotParked, match=because):
            await here.park()
        before = here.counted()
        await until(lambda: here.counted() > before)
        assert here.parker.freezer.note("job-e1") is None

    play(tmp_path, story, **house)


def test_a_program_that_is_late_keeps_its_memory_until_it_is_back(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        control.write_json(house.program.control_dir, "stepped-aside.json", {"id": "one", "done": True})
        house.memory.trouble = "the driver gives no reason"
        with pytest.raises(NotParked):
            await house.park()
        assert '"extra_bytes": 0' not in house.extra_memory()
        control.delete(house.program.control_dir, "stepped-aside.json")
        await until(lambda: '"extra_bytes": 0' in house.extra_memory())

    play(tmp_path, story)


def test_what_an_agent_before_had_begun_is_undone_when_it_is_too_late(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.park()
        await house.new_agent().give_up("job-e1", house.program)
        assert house.memory.on_host == ()
        before = house.counted()
        await until(lambda: house.counted() > before)
        assert house.freezer(house.folder).note("job-e1") is None

    play(tmp_path, story)


def test_memory_that_does_not_go_back_is_told(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.park()
        house.memory.wont_go_back = "its state at the driver is lost"
        with pytest.raises(NotUnparked, match="is lost"):
            await house.unpark()

    play(tmp_path, story)


def test_what_was_on_the_gpu_may_be_in_memory_beyond_the_guests_grant(tmp_path: Path) -> None:
    async def story(house: House) -> None:
        await house.park()
        assert int(house.extra_memory().partition(":")[2].strip(" }\n")) > 8 * GIB
        await house.unpark()
        assert '"extra_bytes": 0' in house.extra_memory()

    play(tmp_path, story)


def test_free_memory_is_read_from_the_system() -> None:
    free_bytes, all_bytes = free_memory()
    assert 0 < free_bytes <= all_bytes
    assert all_bytes == pytest.approx(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), rel=0.05)
