"""A real coordinator that was killed, and whose data was harmed before it starts again."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.cli.exits import DAMAGED
from gpunion.coordinator.damage.loss import EXIT_DAMAGED
from gpunion.domain.protocol.frames import OrderFrame
from tests.integration.coordinator.process import Coordinator, a_job


@pytest.fixture
def killed(tmp_path: Path) -> Coordinator:
    """With a machine, a job that is placed and one that waits, all of it in the log of its database."""
    coordinator = Coordinator(tmp_path / "data").start()
    with coordinator.node() as node, coordinator.client() as client:
        client.submit(a_job())
        node.receive_a(OrderFrame)
        client.submit(a_job(name="second"))
    coordinator.end(signal.SIGKILL)
    return coordinator


def cut_the_log(folder: Path) -> None:
    log = folder / "gpunion.db-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def lose_the_database(folder: Path) -> None:
    for one in folder.glob("gpunion.db*"):
        one.unlink()


def alter_a_credential(folder: Path) -> None:
    with_sql(folder, "UPDATE credentials SET name = 'beta' WHERE kind = 'node'")


def with_sql(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "gpunion.db") as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("harm", "mend"),
    [
        (cut_the_log, "--accept-loss"),
        (lose_the_database, "--begin-anew"),
        (alter_a_credential, "--accept-loss"),
    ],
)
def test_it_says_what_was_lost_and_what_to_do_and_changes_nothing(
    killed: Coordinator, harm: Callable[[Path], None], mend: str
) -> None:
    harm(killed.data_dir)
    told = []
    for _ in range(2):
        killed.process = killed.spawn()
        code, _, err = killed.ended()
        assert code == EXIT_DAMAGED == DAMAGED, err
        assert "Traceback" not in err
        told.append(err.splitlines()[-1])
    assert told[0] == told[1]
    assert told[0].startswith(f"gpunion coordinator: cannot start: {killed.data_dir}/gpunion.db")
    assert "put back the last backup" in told[0]
    assert mend in told[0]
    try:
        killed.start(told[0].partition(f"--data {killed.data_dir} ")[2].split()[0])
        with killed.client() as client:
            client.jobs()
    finally:
        killed.stop()


def test_one_job_that_cannot_be_read_is_held_and_named_and_the_rest_goes_on(killed: Coordinator) -> None:
    with_sql(killed.data_dir, "UPDATE runs SET body = '{}'")
    killed.start()
    try:
        with killed.client() as client:
            jobs = {job["name"]: job for job in client.jobs()["jobs"]}
            assert {name: job["phase"] for name, job in jobs.items()} == {
                "train": "held",
                "second": "pending",
            }
            held = jobs["train"]["id"]
            why = client.why(held)
            assert why["phase"] == "held"
            assert "a run of it cannot be read" in why["story"][-1]["sentence"]
            assert client.job(held)["phase"] == "held"
            assert client.stop(held)["job"]["phase"] == "cancelled"
        _, _, err = killed.end()
        assert "job_held" in err
        with killed.start().client() as client:
            assert client.job(held)["phase"] == "cancelled"
    finally:
        killed.stop()
