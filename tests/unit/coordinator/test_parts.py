"""The coordinator's small parts, each by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpunion.coordinator import job_logs as joblogs
from gpunion.coordinator import openapi
from gpunion.coordinator.job_ids import JobNames
from gpunion.coordinator.job_logs import RUN_SPAN, JobLogs, LogGap
from gpunion.coordinator.loop.clock import SteadyClock
from gpunion.coordinator.loop.connections import Line, Switchboard
from gpunion.coordinator.loop.crash_point import CrashPoint
from gpunion.coordinator.loop.event_watchers import QUEUE_LIMIT, Hub, TooManyWatchers
from gpunion.coordinator.settings import BadSettings, load
from gpunion.domain.ids import JobId, NodeId
from gpunion.ports.database import LoggedDecision

JOB = JobId("job-1")
ROOT = Path(__file__).resolve().parents[3]


def test_the_committed_schema_is_fresh() -> None:
    assert (ROOT / openapi.FILE).read_text(encoding="utf-8") == openapi.schema_text()


# --- clock ----------------------------------------------------------------------------------------


def test_the_clock_follows_elapsed_time_whatever_somebody_sets_the_wall_clock_to() -> None:
    wall, elapsed = [1000.0], [5.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    assert clock.now_s() == 1000.0
    wall[0], elapsed[0] = 1.0, 7.5
    assert clock.now_s() == 1002.5


def test_the_clock_never_begins_before_what_was_committed() -> None:
    clock = SteadyClock(lambda: 1000.0, lambda: 0.0)
    clock.not_before(900.0)
    assert clock.now_s() == 1000.0
    clock.not_before(5000.0)
    assert clock.now_s() == 5000.0


# --- names ----------------------------------------------------------------------------------------


def test_names_sort_by_age_also_within_a_millisecond_and_when_time_stands_still() -> None:
    now = [1_700_000_000.0]
    names = JobNames(lambda: now[0])
    made = [names.next() for _ in range(50)]
    now[0] += 0.001
    made.append(names.next())
    assert made == sorted(set(made))
    assert all(len(name) == len("job-") + 26 for name in made)


def test_a_name_begins_with_its_time() -> None:
    names = JobNames(lambda: 0.032, chance=lambda _bits: 0)
    assert names.next() == "job-" + "0" * 8 + "10" + "0" * 16


# --- settings -------------------------------------------------------------------------------------


def test_arguments_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text(
        'data_dir = "here"\nport = 1\nhost = "a"\nvault = "v"\n[timing]\nlease_s = 4\ngrace_s = 2\n'
    )
    environment = {
        "GPUNION_COORDINATOR_PORT": "2",
        "GPUNION_COORDINATOR_HOST": "b",
        "GPUNION_COORDINATOR_TIMING_LEASE_S": "5.5",
        "GPUNION_TOKEN": "somebody else's",
    }
    settings = load(file, environment, {"port": "3", "host": None})
    assert (settings.port, settings.host, settings.vault) == (3, "b", "v")
    assert (settings.timing.lease_s, settings.timing.grace_s) == (5.5, 2.0)
    assert settings.data_dir.is_absolute()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prot": 1}, "did you mean 'port'"),
        ({"timing": {"leese_s": 1}}, "did you mean 'lease_s'"),
        ({"timing": 3}, "table"),
        ({"port": 70000}, "65535"),
        ({"port": "x"}, "65535"),
        ({"host": 3}, "a text"),
        ({"timing": {"lease_s": -1}}, "seconds"),
        ({"timing": {"lease_s": "inf"}}, "seconds"),
        ({"log_format": "xml"}, "text, json"),
        ({"preemption": "always"}, "at-once, when-it-pays, off"),
        ({"policies": "magic"}, "policies is one of .*gpunion"),
        ({"strict_audit": "perhaps"}, "true or false"),
    ],
)
def test_a_bad_setting_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        load(None, {}, arguments)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot read"):
        load(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("port = = 3")
    with pytest.raises(BadSettings, match="is not TOML"):
        load(tmp_path / "bad.toml")


# --- crash points ---------------------------------------------------------------------------------


def test_a_crash_point_that_makes_no_sense_is_refused() -> None:
    for value in ("3", "x:before", "3:during"):
        with pytest.raises(ValueError, match="GPUNION_CRASH_AT_COMMIT"):
            CrashPoint({"GPUNION_CRASH_AT_COMMIT": value})
    quiet = CrashPoint({})
    quiet.before_commit()
    quiet.after_commit()


# --- watchers -------------------------------------------------------------------------------------


def a_line(seq: int) -> LoggedDecision:
    return LoggedDecision(seq=seq, at_s=0.0, event="E", subjects=(), reasons=(), effects=())


async def test_a_slow_watcher_is_let_go_and_the_others_are_not() -> None:
    hub = Hub()
    with hub.watch() as slow, hub.watch() as quick:
        for seq in range(1, QUEUE_LIMIT + 2):
            hub.publish(a_line(seq))
            assert await quick.next() == a_line(seq)
        told = []
        while (line := await slow.next()) is not None:
            told.append(line.seq)
        assert told == list(range(1, QUEUE_LIMIT + 1))


async def test_closing_the_hub_ends_every_stream() -> None:
    hub = Hub()
    with hub.watch() as watcher:
        waiting = asyncio.create_task(watcher.next())
        hub.close()
        assert await waiting is None
    with pytest.raises(TooManyWatchers), hub.watch():
        pass


# --- lines ----------------------------------------------------------------------------------------


async def test_the_newest_line_is_the_node_s() -> None:
    board = Switchboard()
    old, new = Line(NodeId("alpha")), Line(NodeId("alpha"))
    board.take(old)
    board.take(new)
    assert old.replaced
    assert old.wake.is_set()
    assert not board.drop(old)
    assert board.connected(NodeId("alpha"))
    board.wake(NodeId("alpha"))
    assert new.wake.is_set()
    assert board.drop(new)
    assert not board.connected(NodeId("alpha"))


# --- logs of jobs ---------------------------------------------------------------------------------


def whole(logs: JobLogs, limit: int = 16) -> str:
    text, position = "", 0
    while True:
        piece = logs.read(JOB, position, limit)
        text += piece.text
        if piece.at_end and not piece.text:
            return text
        position = piece.next_position


def test_a_push_that_is_repeated_adds_only_what_is_new(tmp_path: Path) -> None:
    logs = JobLogs(tmp_path)
    assert logs.append(JOB, 1, 0, b"hello ") == 6
    assert logs.append(JOB, 1, 0, b"hello ") == 6
    assert logs.append(JOB, 1, 3, b"lo world") == 11
    with pytest.raises(LogGap) as gap:
        logs.append(JOB, 1, 20, b"x")
    assert gap.value.expected == 11
    assert whole(JobLogs(tmp_path)) == "hello world"


def test_runs_follow_each_other_and_a_reader_can_wait_at_the_end(tmp_path: Path) -> None:
    logs = JobLogs(tmp_path)
    assert logs.read(JOB, 0, 100).text == ""
    logs.append(JOB, 1, 0, b"one ")
    piece = logs.read(JOB, 0, 100)
    assert (piece.text, piece.at_end) == ("one ", True)
    logs.append(JOB, 1, 4, b"more ")
    piece = logs.read(JOB, piece.next_position, 100)
    assert piece.text == "more "
    logs.append(JOB, 3, 0, b"three")
    piece = logs.read(JOB, piece.next_position, 100)
    assert (piece.text, piece.next_position, piece.at_end) == ("three", 3 * RUN_SPAN + 5, True)
    assert whole(logs) == "one more three"


def test_the_end_of_a_log_is_where_all_of_it_is_there(tmp_path: Path) -> None:
    logs = JobLogs(tmp_path)
    logs.append(JOB, 1, 0, b"hello ")
    with pytest.raises(LogGap) as gap:
        logs.end(JOB, 1, 11)
    assert (gap.value.expected, logs.ended(JOB, 1)) == (6, False)
    logs.append(JOB, 1, 6, b"world")
    logs.end(JOB, 1, 11)
    assert (JobLogs(tmp_path).ended(JOB, 1), logs.ended(JOB, 2)) == (True, False)
    assert whole(logs) == "hello world"


def test_who_printed_nothing_has_an_end_as_well(tmp_path: Path) -> None:
    logs = JobLogs(tmp_path)
    logs.end(JOB, 1, 0)
    assert logs.ended(JOB, 1)
    assert logs.read(JOB, 0, 100).at_end


def test_characters_are_not_cut(tmp_path: Path) -> None:
    logs = JobLogs(tmp_path)
    text = "äöü€😀" * 20
    data = text.encode()
    for place in range(0, len(data), 7):
        logs.append(JOB, 1, place, data[place : place + 7])
    assert whole(logs) == text


def test_bytes_that_are_no_text_are_shown_as_such_and_never_stop_a_reader(tmp_path: Path) -> None:
    logs = JobLogs(tmp_path)
    logs.append(JOB, 1, 0, b"\xff\xfe" * 40 + b"\xf0")
    logs.append(JOB, 2, 0, b"end")
    assert whole(logs).endswith("end")


def test_an_old_part_of_a_long_log_is_dropped_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblogs, "SEGMENT_LIMIT_BYTES", 10)
    logs = JobLogs(tmp_path)
    logs.append(JOB, 1, 0, bytes(range(48, 48 + 65)))
    assert len(list((tmp_path / JOB).iterdir())) == joblogs.SEGMENTS_KEPT
    assert whole(logs).startswith("[30 bytes are no longer kept]\n")
    assert logs.append(JOB, 1, 65, b"!") == 66
