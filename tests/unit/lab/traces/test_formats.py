from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.domain.resources import MIB
from gpunion.lab.traces.formats import FORMATS, format_of, read_jobs, read_records
from gpunion.lab.traces.lending import read_lending
from gpunion.lab.traces.records import Demand, TraceJob
from gpunion.lab.traces.rows import TraceError
from tests.unit.traces.files import EXAMPLES, example


def test_there_is_an_example_of_every_format() -> None:
    assert set(EXAMPLES) == {known.name for known in FORMATS}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_format_is_known_by_its_columns_whatever_the_file_is_called(name: str, tmp_path: Path) -> None:
    assert format_of(example(tmp_path, name)).name == name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_order_of_columns_does_not_matter_nor_do_extra_ones(name: str, tmp_path: Path) -> None:
    path = example(tmp_path, name)
    before = list(read_records(path))
    rows = [line.split(",") for line in EXAMPLES[name].splitlines()]
    turned = "\n".join(",".join(["note", *reversed(row)]) for row in rows)
    path.write_text("\ufeff" + turned + "\n\n", encoding="utf-8")
    assert list(read_records(path)) == before


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_format_says_when_something_was_lent(name: str, tmp_path: Path) -> None:
    lending = read_lending(example(tmp_path, name), idle_s=0.0)
    assert lending.format == name
    assert lending.units
    assert lending.departures > 0


def test_a_demand_row_becomes_a_value(tmp_path: Path) -> None:
    first = next(iter(read_records(example(tmp_path, "helios demand"))))
    assert first == Demand(pool="one", at_s=1893974400.0, total=8, running=2)


def test_jobs_keep_their_fractions_models_and_missing_starts(tmp_path: Path) -> None:
    pods = list(read_jobs(example(tmp_path, "alibaba openb pods")))
    assert pods[0] == TraceJob(
        id="p0",
        group="all",
        submit_s=0.0,
        start_s=10.0,
        duration_s=8990.0,
        gpus=1,
        gpu_share=0.5,
        gpu_models=("V100M16", "V100M32"),
        cpus=4.0,
        memory_bytes=1024 * MIB,
    )
    assert (pods[2].start_s, pods[2].duration_s) == (None, None)
    assert (pods[3].gpus, pods[3].gpu_share) == (0, 1.0)
    assert [job.gpus for job in read_jobs(example(tmp_path, "philly jobs"))] == [4, 8, 2]


def test_a_file_of_no_jobs_is_not_read_as_jobs(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds log-ins, not jobs") as caught:
        list(read_jobs(example(tmp_path, "log-ins")))
    assert "philly jobs" in caught.value.next_step


def test_unknown_columns_name_the_nearest_format_and_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("vc,time,running_gpus\n", encoding="utf-8")
    with pytest.raises(TraceError, match="no format has the columns") as caught:
        format_of(path)
    assert "helios demand" in caught.value.next_step
    assert "total_gpus" in caught.value.next_step


@pytest.mark.parametrize(
    ("name", "line", "text", "complaint"),
    [
        ("helios demand", 3, "one,yesterday,8,4,0,2", "time: expected a date and time"),
        ("helios demand", 3, "one,2030-01-07 09:00,8,-4,0,2", "running_gpus: expected a whole number"),
        ("helios demand", 3, "one,2030-01-07 09:00,8,four,0,2", "running_gpus: expected a whole number"),
        ("helios demand", 3, ",2030-01-07 09:00,8,4,0,2", "vc: expected a name"),
        ("helios demand", 3, "one,2030-01-07 09:00,8", "expected 6 cells"),
        ("helios demand", 4, "one,2030-01-06 09:00,8,4,0,2", "no earlier than one's row before it"),
        ("skypilot changes", 2, "zone-a,soon,2", "t_s: expected a number"),
        ("skypilot changes", 2, "zone-a,nan,2", "t_s: expected a number"),
        ("bamboo nodes", 4, "60000,explode,n1", "event: expected add or remove"),
        (
            "google lifetimes",
            2,
            "0,z,s,2030-01-07T08:00:00Z,Monday,9,idle,1,lost",
            "end: expected preempted or",
        ),
        ("lanl failures", 2, "3.001,2000,1000", "up_at_epoch: expected no earlier than down_from_epoch"),
        ("alibaba openb pods", 2, "p0,1,1,1,500,,LS,Running,0,5,10", "deletion_time: expected no earlier"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line_and_what_was_expected(
    name: str, line: int, text: str, complaint: str, tmp_path: Path
) -> None:
    path = example(tmp_path, name)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TraceError, match=f"line {line}: .*{complaint}") as caught:
        read_lending(path)
    assert "line" in caught.value.next_step


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "empty"), (b"\xff\xfe\x00", "not a CSV file in UTF-8"), (None, "no file")],
)
def test_a_file_that_cannot_be_read_says_so(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TraceError, match=complaint):
        read_lending(path)


def test_a_folder_is_not_a_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read"):
        read_lending(tmp_path)


def test_bytes_that_go_wrong_later_are_noticed_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"time,location\n2030-01-07 09:00:00,caf\xe9\n")
    with pytest.raises(TraceError, match="not a CSV file in UTF-8"):
        list(read_records(path))


def test_a_file_in_which_nothing_is_lent_says_what_would_help(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,location\n2030-01-07 09:00:00,room\n", encoding="utf-8")
    with pytest.raises(TraceError, match="no time in which anything was lent") as caught:
        read_lending(path)
    assert "longer record" in caught.value.next_step


def test_reading_is_a_stream_that_stops_where_the_reader_stops(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,location\n2030-01-07 09:00:00,room\nbroken\n", encoding="utf-8")
    records = read_records(path)
    next(records)
    with pytest.raises(TraceError, match="line 3"):
        next(records)
