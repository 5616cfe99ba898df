"""What may be done about a store that refuses to open, and what it goes on without."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.sql.database import SqlStore
from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.account import Account
from gpunion.domain.jobs.gang import Seat, member_id
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.profile import Reliability
from gpunion.domain.protocol.commit import SavedCampus
from gpunion.ports.database import Credential, CredentialKind, Mend, StoreDamaged
from tests.contract.store import builders
from tests.contract.store.builders import a_commit
from tests.contract.store.damaged_campus import ADMIN, Place

OTHER = JobId("job-2")


def a_store(place: Place, mend: Mend = Mend.NOTHING) -> SqlStore:
    return SqlStore(place.database, mend=mend, witnesses=(place.folder / ADMIN,))


async def left_by_a_kill(tmp_path: Path) -> Place:
    """Two jobs, one of them running; all of it in the log."""
    live = Place(tmp_path / "live")
    live.folder.mkdir()
    store = a_store(live)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    node = Credential(kind=CredentialKind.NODE, name=builders.NODE, digest="d", created_s=1.0)
    await store.put_credential(node)
    job, run = builders.a_job(epoch=1), builders.a_run(checkpoints=1)
    await store.commit(a_commit(job, run, builders.a_node(), builders.a_checkpoint()), term=term)
    await store.commit(a_commit(builders.a_job(id=OTHER), subject=OTHER), term=term)
    place = live.copied(tmp_path / "killed")
    await store.close(term=term)
    return place


async def loaded(place: Place, mend: Mend = Mend.NOTHING) -> SavedCampus:
    store = a_store(place, mend)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    try:
        return await store.load()
    finally:
        await store.close(term=term)


def with_sql(place: Place, *statements: str) -> None:
    with sqlite3.connect(place.database) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def held(saved: SavedCampus) -> dict[str, HeldJob]:
    return {one.id: one for one in saved.records if isinstance(one, HeldJob)}


async def test_a_log_that_was_lost_is_told_and_accepted_once(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    place.wal.write_bytes(place.wal.read_bytes()[:-5000])
    with pytest.raises(
        StoreDamaged, match=r"the last 1 of its \d+ commits are missing: its log gpunion.db-wal"
    ):
        await loaded(place)
    found = await loaded(place, Mend.ACCEPT_LOSS)
    assert any("accepted: the last 1 of its" in told for told in found.left_out)
    again = await loaded(place)
    assert again == replace(found, left_out=())


async def test_an_empty_database_beside_a_token_is_no_new_campus(tmp_path: Path) -> None:
    (tmp_path / ADMIN).write_text("token\n")
    with pytest.raises(StoreDamaged, match=f"is not there, but there was a campus here: {ADMIN} beside it"):
        await loaded(Place(tmp_path))
    assert [one.name for one in tmp_path.iterdir() if one.suffix != ".lock"] == [ADMIN]
    with pytest.raises(StoreDamaged):
        await loaded(Place(tmp_path), Mend.ACCEPT_LOSS)
    assert await loaded(Place(tmp_path), Mend.BEGIN_ANEW) == SavedCampus()
    assert await loaded(Place(tmp_path)) == SavedCampus()


async def test_beginning_anew_puts_a_damaged_database_aside_and_leaves_a_sound_one(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    whole = await loaded(place, Mend.BEGIN_ANEW)
    assert len(whole.records) == 5
    database = place.database.read_bytes()
    place.database.write_bytes(database[:5000])
    assert await loaded(place, Mend.BEGIN_ANEW) == SavedCampus()
    assert (place.folder / "gpunion.db.aside-1").read_bytes() == database[:5000]


async def test_a_first_start_that_was_cut_short_is_no_loss(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await loaded(place)
    with_sql(place, "DELETE FROM leader")
    (tmp_path / "gpunion.db.reached").unlink()
    assert await loaded(place) == SavedCampus()


async def test_a_database_alone_is_opened_as_a_backup_is(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, "PRAGMA wal_checkpoint(TRUNCATE)")
    alone = Place(tmp_path / "restored")
    alone.folder.mkdir()
    alone.database.write_bytes(place.database.read_bytes())
    assert await loaded(alone) == await loaded(place)


async def test_a_job_whose_run_is_gone_is_held_with_what_is_known_of_it(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, "DELETE FROM runs")
    found = held(await loaded(place))
    assert found[builders.JOB].job == builders.a_job(epoch=1)
    assert "a run of it is gone" in found[builders.JOB].why
    assert OTHER not in found


async def test_a_waiting_job_that_is_gone_is_missed(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, f"DELETE FROM jobs WHERE id = '{OTHER}'")
    with pytest.raises(StoreDamaged, match="jobs has 1 row fewer than was written"):
        await loaded(place)


async def test_an_unreadable_run_closes_its_machine_to_others(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, "UPDATE runs SET body = replace(body, '1', '2')")
    assert held(await loaded(place))[builders.JOB].nodes == (builders.NODE,)


async def test_a_memory_that_cannot_be_read_begins_anew(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    store = a_store(place)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    account = Account(id="user:sam", lent_gpu_s=1.0, as_of_s=1.0)
    await store.commit(a_commit(account), term=term)
    await store.close(term=term)
    with_sql(place, "UPDATE accounts SET body = replace(body, '1.0', 'null')")
    found = await loaded(place)
    assert account not in found.records
    assert found.left_out == ("who has used how much (fair shares begin anew)",)
    assert (await loaded(place)).left_out == ()


async def test_who_was_believed_less_is_believed_again_where_that_cannot_be_read(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    store = a_store(place)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    kept = Reliability(id="0", user="sam", program="train", rho=0.5, pieces=3, as_of_s=1.0)
    altered = Reliability(id="1", user="ann", program="train", rho=0.25, pieces=3, as_of_s=1.0)
    await store.commit(a_commit(kept, altered), term=term)
    await store.close(term=term)
    with_sql(place, "UPDATE reliabilities SET body = replace(body, '0.25', '1.0')")
    found = await loaded(place)
    assert kept in found.records
    assert not any(isinstance(one, Reliability) and one.user == "ann" for one in found.records)
    assert found.left_out == (
        "how far what jobs in windows promise is believed (who was doubted is believed again)",
    )
    assert (await loaded(place)).left_out == ()


async def test_a_credential_that_was_altered_lets_nobody_in(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, "UPDATE credentials SET digest = 'mine'")
    with pytest.raises(StoreDamaged, match="1 of credentials cannot be read"):
        await loaded(place)
    store = a_store(place, Mend.ACCEPT_LOSS)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    assert await store.credentials() == []
    await store.close(term=term)
    await loaded(place)


async def test_a_line_of_the_log_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, "UPDATE decisions SET event = 'Other' WHERE seq = 1")
    store = a_store(place)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    assert [line.seq for line in await store.log()] == [2]
    await store.close(term=term)


async def test_a_gang_is_held_as_a_whole(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    store = a_store(place)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    leader = builders.a_job(id=JobId("job-3"))
    members = [
        replace(
            leader, id=member_id(leader.id, rank), spec=replace(leader.spec, seat=Seat(size=2, rank=rank))
        )
        for rank in range(2)
    ]
    await store.commit(a_commit(*members), term=term)
    await store.close(term=term)
    with_sql(place, "UPDATE jobs SET phase = 'over' WHERE id = 'job-3-r1'")
    assert held(await loaded(place)).keys() == {"job-3", "job-3-r1"}


async def test_a_held_job_comes_back_as_it_was_last_known(tmp_path: Path) -> None:
    place = await left_by_a_kill(tmp_path)
    with_sql(place, "UPDATE checkpoints SET phase = 'durable'")
    store = a_store(place)
    term = await store.open(holder="test", now_s=0.0, lead_s=30.0)
    known = held(await store.load())[builders.JOB]
    assert [run.id for run in known.runs] == [RunId("job-1-e1")]
    given_up = replace(known, runs=(), given_up=True)
    await store.commit(a_commit(given_up), term=term)
    await store.close(term=term)
    assert held(await loaded(place)) == {builders.JOB: given_up}
