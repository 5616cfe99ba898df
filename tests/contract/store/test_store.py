"""What every store promises the coordinator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.protocol.commit import InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.protocol.effects import CancelTimer, ForgetOrders, SetTimer
from gpunion.domain.protocol.events import JobSubmitted, NodeReported, TimerFired
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import NodePaused
from gpunion.domain.protocol.timers import LessonDue, SaveDue
from gpunion.domain.reasons.reason import Why, because
from gpunion.ports.database import (
    LOG_PAGE_BYTES,
    Credential,
    CredentialKind,
    Overtaken,
    Redeemed,
    StoreTaken,
    log_line,
    weight_of,
)
from tests.contract.store import builders
from tests.contract.store.builders import JOB, NODE, RUN, a_commit
from tests.contract.store.conftest import Place

BETA = NodeId("beta")


A, B, C, X = (SaveDue(run_id=RunId(name)) for name in "abcx")


def an_order(seq: int, node_id: NodeId = NODE) -> NumberedOrder:
    return NumberedOrder(node_id=node_id, seq=seq, order=StopRun(run_id=RUN, job_id=JOB, epoch=seq))


async def test_a_new_store_is_empty(place: Place) -> None:
    store, term = await place.opened()
    assert term == 1
    assert await store.load() == SavedCampus()
    assert await store.newest_s() == 0.0
    assert await store.log() == []


async def test_records_come_back_as_they_were(place: Place) -> None:
    store, term = await place.opened()
    records = (
        builders.a_job(durable=builders.a_durable_point()),
        builders.a_run(),
        builders.a_node(),
        builders.a_checkpoint(),
        builders.a_migration(),
        builders.an_image(),
        builders.an_environment(),
    )
    await store.commit(a_commit(*records), term=term)
    store, _ = await place.restarted(store, term)
    assert set((await store.load()).records) == set(records)


async def test_the_last_change_of_a_record_wins(place: Place) -> None:
    store, term = await place.opened()
    job = builders.a_job()
    await store.commit(a_commit(job), term=term)
    running, stopping = (replace(job, phase=phase) for phase in (JobPhase.RUNNING, JobPhase.STOPPING))
    await store.commit(a_commit(running, stopping), term=term)
    assert (await store.load()).records == (stopping,)


async def test_timers_are_set_moved_cancelled_and_fire_once(place: Place) -> None:
    store, term = await place.opened()
    effects = (SetTimer(timer=A, at_s=1.0), SetTimer(timer=B, at_s=2.0), SetTimer(timer=C, at_s=3.0))
    await store.commit(a_commit(effects=effects), term=term)
    moved = (SetTimer(timer=A, at_s=9.0), CancelTimer(timer=B), CancelTimer(timer=LessonDue()))
    await store.commit(a_commit(effects=moved), term=term)
    assert (await store.load()).timers == ((A, 9.0), (C, 3.0))
    await store.commit(a_commit(event=TimerFired(timer=C), reasons=()), term=term)
    assert (await store.load()).timers == ((A, 9.0),)


async def test_a_timer_that_fired_may_be_set_again_by_its_own_decision(place: Place) -> None:
    store, term = await place.opened()
    await store.commit(a_commit(effects=(SetTimer(timer=A, at_s=1.0),)), term=term)
    again = a_commit(event=TimerFired(timer=A), effects=(SetTimer(timer=A, at_s=5.0),))
    await store.commit(again, term=term)
    assert (await store.load()).timers == ((A, 5.0),)


async def test_within_one_decision_the_last_word_on_a_timer_counts(place: Place) -> None:
    store, term = await place.opened()
    effects = (
        SetTimer(timer=A, at_s=1.0),
        CancelTimer(timer=A),
        CancelTimer(timer=B),
        SetTimer(timer=B, at_s=2.0),
    )
    await store.commit(a_commit(effects=effects), term=term)
    assert (await store.load()).timers == ((B, 2.0),)


async def test_orders_wait_until_they_are_acknowledged(place: Place) -> None:
    store, term = await place.opened()
    await store.commit(a_commit(orders=(an_order(1), an_order(2), an_order(1, BETA))), term=term)
    await store.acknowledged(NODE, 1)
    await store.commit(a_commit(orders=(an_order(3),)), term=term)
    saved = await store.load()
    assert saved.orders == (an_order(2), an_order(3), an_order(1, BETA))
    assert saved.last_order_seq == ((NODE, 3), (BETA, 1))


async def test_forgotten_orders_go_but_their_numbers_are_not_used_again(place: Place) -> None:
    store, term = await place.opened()
    await store.commit(a_commit(orders=(an_order(1), an_order(2), an_order(1, BETA))), term=term)
    await store.commit(a_commit(effects=(ForgetOrders(node_id=NODE),)), term=term)
    saved = await store.load()
    assert saved.orders == (an_order(1, BETA),)
    assert saved.last_order_seq == ((NODE, 2), (BETA, 1))


async def test_orders_of_the_decision_that_forgets_stay(place: Place) -> None:
    store, term = await place.opened()
    await store.commit(a_commit(orders=(an_order(1), an_order(2))), term=term)
    await store.commit(
        a_commit(effects=(ForgetOrders(node_id=NODE),), orders=(an_order(3), an_order(4))), term=term
    )
    assert (await store.load()).orders == (an_order(3), an_order(4))


async def test_the_newest_inbox_mark_of_a_node_counts(place: Place) -> None:
    store, term = await place.opened()
    first = InboxMark(node_id=NODE, incarnation="i1", seq=7)
    second = InboxMark(node_id=NODE, incarnation="i2", seq=1)
    await store.commit(a_commit(mark=first), term=term)
    await store.commit(a_commit(mark=second, reasons=()), term=term)
    assert (await store.load()).marks == (second,)


async def test_a_commit_of_an_older_term_changes_nothing(place: Place) -> None:
    store, term = await place.opened()
    await store.commit(a_commit(builders.a_job()), term=term)
    with pytest.raises(Overtaken):
        await store.commit(a_commit(builders.a_node()), term=term - 1)
    assert (await store.load()).records == (builders.a_job(),)
    assert len(await store.log()) == 1
    with pytest.raises(Overtaken):
        await store.renew(term=term - 1, now_s=1.0, lead_s=1.0)


async def test_every_lead_has_a_higher_term(place: Place) -> None:
    store, first = await place.opened()
    store, second = await place.restarted(store, first)
    store, third = await place.restarted(store, second)
    assert first < second < third


async def test_a_second_coordinator_is_refused_while_the_first_leads(place: Place) -> None:
    store, term = await place.opened()
    with pytest.raises(StoreTaken, match="another coordinator"):
        await place.opened()
    assert await store.commit(a_commit(builders.a_job()), term=term) == 1


async def test_closing_twice_is_harmless(place: Place) -> None:
    store, term = await place.opened()
    await store.close(term=term)
    await store.close(term=term)


async def test_the_newest_time_is_remembered_also_without_a_line(place: Place) -> None:
    store, term = await place.opened()
    await store.commit(a_commit(at_s=50.0), term=term)
    await store.commit(a_commit(at_s=60.0, reasons=(), event=TimerFired(timer=X)), term=term)
    store, _ = await place.restarted(store, term)
    assert await store.newest_s() == 60.0


async def test_the_log_is_numbered_and_an_empty_decision_leaves_no_line(place: Place) -> None:
    store, term = await place.opened()
    assert await store.commit(a_commit(), term=term) == 1
    assert await store.commit(a_commit(reasons=(), event=TimerFired(timer=X)), term=term) == 1
    store, term = await place.restarted(store, term)
    assert await store.commit(a_commit(), term=term) == 2
    assert [line.seq for line in await store.log()] == [1, 2]


async def test_a_line_of_the_log_is_the_commit_in_short(place: Place) -> None:
    store, term = await place.opened()
    commit = a_commit(
        builders.a_run(),
        event=NodeReported(node_id=NODE, report=NodePaused()),
        effects=(SetTimer(timer=A, at_s=1.0),),
        reasons=(because(JOB, Why.RESUMED, node=NODE, step=3), because(NODE, Why.NODE_PAUSED)),
    )
    await store.commit(commit, term=term)
    (line,) = await store.log()
    assert line == log_line(commit, 1)
    assert line.event == "NodeReported.NodePaused"
    assert line.subjects == (NODE, JOB, RUN)
    assert line.effects == ("SetTimer",)
    assert line.reasons[0].sentence() == "resumed on alpha at step 3"


async def test_the_log_is_read_by_subject_and_in_pages(place: Place) -> None:
    store, term = await place.opened()
    for number in range(6):
        await store.commit(a_commit(subject=f"job-{number % 2}"), term=term)
    assert [line.seq for line in await store.log(subject="job-1")] == [2, 4, 6]
    assert [line.seq for line in await store.log(since_seq=2, limit=2)] == [3, 4]
    assert [line.seq for line in await store.log(subject="job-0", since_seq=1, limit=1)] == [3]
    assert await store.log(subject="job-7") == []


async def test_a_page_of_the_log_ends_where_it_weighs_enough(place: Place) -> None:
    store, term = await place.opened()
    heavy = because(JOB, Why.TERMS_CHANGED, node=NODE, said="x" * 30_000)
    for _ in range(20):
        await store.commit(a_commit(reasons=(heavy,)), term=term)
    seen: list[int] = []
    while page := await store.log(since_seq=seen[-1] if seen else 0, limit=500):
        assert sum(map(weight_of, page)) <= LOG_PAGE_BYTES
        seen += [line.seq for line in page]
    assert seen == list(range(1, 21))


async def test_a_line_of_the_log_that_fills_more_than_a_page_is_a_page(place: Place) -> None:
    store, term = await place.opened()
    giant = because(JOB, Why.TERMS_CHANGED, node=NODE, said="x" * 2 * LOG_PAGE_BYTES)
    for _ in range(2):
        await store.commit(a_commit(reasons=(giant,)), term=term)
    assert [line.seq for line in await store.log()] == [1]
    assert [line.seq for line in await store.log(since_seq=1)] == [2]


async def test_a_key_leads_to_the_job_it_made(place: Place) -> None:
    store, term = await place.opened()
    job = builders.a_job()
    submitted = JobSubmitted(job_id=job.id, spec=job.spec)
    await store.commit(a_commit(job, event=submitted, idempotency_key="k"), term=term)
    store, _ = await place.restarted(store, term)
    assert await store.job_for_key("k") == JobId("job-1")
    assert await store.job_for_key("other") is None


def a_credential(name: str = "alpha", digest: str = "d1") -> Credential:
    return Credential(kind=CredentialKind.NODE, name=name, digest=digest, created_s=1.0, lab="lab-a")


async def test_a_credential_replaces_the_one_before(place: Place) -> None:
    store, term = await place.opened()
    admin = Credential(kind=CredentialKind.ADMIN, name="admin", digest="d0", created_s=1.0)
    for credential in (admin, a_credential(), a_credential(digest="d2"), a_credential("beta", "d3")):
        await store.put_credential(credential)
    store, _ = await place.restarted(store, term)
    kept = {credential.digest for credential in await store.credentials()}
    assert kept == {"d0", "d2", "d3"}
    assert a_credential(digest="d2") in await store.credentials()


async def test_the_mark_of_a_folder_is_kept_until_another_is_accepted(place: Place) -> None:
    store, term = await place.opened()
    assert await store.place_marks() == {}
    for directory, mark in (("/nfs/attic", "m1"), ("/nfs/cellar", "m2"), ("/nfs/attic", "m3")):
        await store.put_place_mark(directory, mark)
    store, _ = await place.restarted(store, term)
    assert await store.place_marks() == {"/nfs/attic": "m3", "/nfs/cellar": "m2"}


async def test_a_join_token_works_once_and_in_time(place: Place) -> None:
    store, term = await place.opened()
    await store.put_join_token("t1", expires_s=100.0)
    await store.put_join_token("t2", expires_s=100.0)
    assert await store.redeem("nobody's", now_s=50.0, credential=a_credential()) is Redeemed.UNKNOWN
    assert await store.redeem("t2", now_s=100.0, credential=a_credential()) is Redeemed.EXPIRED
    assert await store.credentials() == []
    assert await store.redeem("t1", now_s=50.0, credential=a_credential()) is Redeemed.TAKEN
    store, _ = await place.restarted(store, term)
    assert await store.redeem("t1", now_s=50.0, credential=a_credential("beta", "d9")) is Redeemed.USED
    assert await store.credentials() == [a_credential()]
