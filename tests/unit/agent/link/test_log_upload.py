from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpunion.agent.link import log_upload as logs
from gpunion.agent.link.log_upload import LogPusher
from gpunion.ports.coordinator_link import LinkFault
from tests.unit.agent.fake_link import FakeLink
from tests.unit.agent.fakes import until


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
async def pusher(link: FakeLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LogPusher]:
    monkeypatch.setattr(logs, "LOOK_S", 0.001)
    monkeypatch.setattr(logs, "TROUBLE_WAIT_S", 0.001)
    pusher = LogPusher(link, tmp_path / "kept")
    pusher.open()
    running = asyncio.create_task(pusher.run())
    yield pusher
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_what_a_guest_prints_arrives_once_and_in_order(
    link: FakeLink, pusher: LogPusher, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"one\n")
    pusher.follow("r1", log)
    await until(lambda: link.logs.get("r1") == b"one\n")
    with open(log, "ab") as file:
        file.write(b"two\n")
    await until(lambda: link.logs["r1"] == b"one\ntwo\n")


async def test_a_restarted_agent_goes_on_where_the_coordinator_is(
    link: FakeLink, pusher: LogPusher, tmp_path: Path
) -> None:
    link.logs["r1"] = b"one\ntw"
    (tmp_path / "log.txt").write_bytes(b"one\ntwo\n")
    pusher.follow("r1", tmp_path / "log.txt")
    await until(lambda: link.logs["r1"] == b"one\ntwo\n")


async def test_a_log_outlives_its_guest_until_the_coordinator_has_it(
    link: FakeLink, pusher: LogPusher, tmp_path: Path
) -> None:
    link.log_fault = LinkFault("away", temporary=True)
    log = tmp_path / "log.txt"
    log.write_bytes(b"last words")
    pusher.follow("r1", log)
    pusher.keep_rest("r1", log)
    log.unlink()
    assert (tmp_path / "kept" / "r1").exists()
    link.log_fault = None
    await until(lambda: link.logs.get("r1") == b"last words")
    await until(lambda: not (tmp_path / "kept" / "r1").exists())


async def test_the_coordinator_is_told_when_it_has_all_of_a_log_and_not_before(
    link: FakeLink, pusher: LogPusher, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"x" * (2 * logs.PIECE_BYTES + 1))
    pusher.follow("r1", log)
    await until(lambda: len(link.logs.get("r1", b"")) == 2 * logs.PIECE_BYTES + 1)
    assert link.whole_logs == []
    with open(log, "ab") as file:
        file.write(b"THE END")
    pusher.keep_rest("r1", log)
    await until(lambda: link.whole_logs == ["r1"])
    assert link.logs["r1"].endswith(b"THE END")


async def test_a_log_that_is_gone_at_the_coordinator_is_sent_again_before_its_end_is_told(
    link: FakeLink, pusher: LogPusher, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"last words")
    pusher.follow("r1", log)
    await until(lambda: link.logs.get("r1") == b"last words")
    link.logs["r1"] = b"last"
    pusher.keep_rest("r1", log)
    await until(lambda: link.whole_logs == ["r1"])
    assert link.logs["r1"] == b"last words"


async def test_a_new_agent_takes_up_what_an_earlier_one_kept(link: FakeLink, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "r0").write_bytes(b"before")
    pusher = LogPusher(link, tmp_path / "kept")
    pusher.open()
    running = asyncio.create_task(pusher.run())
    await until(lambda: link.logs.get("r0") == b"before")
    running.cancel()


async def test_a_log_that_nobody_takes_is_given_up_once_its_guest_is_gone(
    link: FakeLink, pusher: LogPusher, tmp_path: Path
) -> None:
    link.log_fault = LinkFault("not your run", temporary=False)
    log = tmp_path / "log.txt"
    log.write_bytes(b"x")
    pusher.keep_rest("r1", log)
    await until(lambda: not (tmp_path / "kept" / "r1").exists())


async def test_kept_logs_are_bounded(
    link: FakeLink, pusher: LogPusher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "KEPT_MAX", 3)
    link.log_fault = LinkFault("away", temporary=True)
    for number in range(5):
        log = tmp_path / f"log{number}"
        log.write_bytes(b"x")
        pusher.keep_rest(f"r{number}", log)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["r2", "r3", "r4"]


async def test_a_guest_without_a_log_is_no_trouble(pusher: LogPusher, tmp_path: Path) -> None:
    pusher.keep_rest("r1", tmp_path / "nothing")
    pusher.follow("r2", tmp_path / "nothing")
    await asyncio.sleep(0.02)
