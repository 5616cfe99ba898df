"""States are brought ahead of their jobs: whose, where to, how often, and until when."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.passes import PASS_VALID_S, key_of_run, token_of
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.effects import DropState, FetchState
from gpunion.domain.protocol.events import JobSubmitted, OwnerPaused, StateFetched
from gpunion.domain.protocol.orders import StageState, StartRun, UnstageState
from gpunion.domain.protocol.reports import (
    CheckpointDurable,
    DepartureForetold,
    NodePaused,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    StateStaged,
)
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.policy.expected_loss import ExpectedLoss
from gpunion.policy.hazard.weekly import WeeklyHazard
from gpunion.policy.policies import BASELINE, Policies
from gpunion.policy.staging import AGAIN_S, ASKED_WITHIN_S, COPIES_MOST, PreStaging
from tests.builders import Headquarters, LoneAgent, a_spec, deeds, facts, orders, reports, whys

SIZE = 8 * GIB
KEY = "5a" * 32
LOSS = ExpectedLoss(hazard=WeeklyHazard())
AHEAD = replace(BASELINE, destination=LOSS, staging=PreStaging(loss=LOSS))


class Story:
    """Jobs whose costs are known, since they have saved often, each on its node; others are free."""

    def __init__(
        self,
        policies: Policies = AHEAD,
        *,
        ship_bytes: int = GIB // 2,
        data_address: str = "",
        jobs: tuple[tuple[str, str], ...] = (("job", "alpha"),),
        free: tuple[str, ...] = ("beta", "gamma"),
        vault_key: str = "",
    ) -> None:
        self.campus = Headquarters(policies=policies)
        self.ship_bytes, self.saves, self.node_of = ship_bytes, 0, dict(jobs)
        for job, node in jobs:
            self.campus.joins(node, replace(facts(lab=node), data_address=data_address))
            spec = a_spec(expected_s=20 * 3600.0)
            submitted = JobSubmitted(job_id=JobId(job), spec=spec, peer_key=KEY, vault_key=vault_key)
            self.campus.hears(submitted)
            self.campus.later(1.0).started(f"{job}-e1")
        for node in free:
            self.campus.joins(node, facts(lab=node))
        for job, _ in jobs:
            self.saves_again(SIZE, job=job)
            for _ in range(5):
                self.saves_again(job=job)

    def saves_again(
        self, shipped_bytes: int | None = None, *, later_s: float = 600.0, job: str = "job"
    ) -> Decision:
        self.saves += 1
        self.campus.later(later_s)
        return self.campus.reported(
            self.node_of[job],
            CheckpointDurable(
                run_id=RunId(f"{job}-e1"),
                job_id=JobId(job),
                epoch=1,
                checkpoint_id=CheckpointId(f"{job}-e1-a{self.saves}"),
                step=self.saves,
                progress=0.001 * self.saves,
                size_bytes=SIZE,
                shipped_bytes=self.ship_bytes if shipped_bytes is None else shipped_bytes,
                final=False,
            ),
        )

    def ends_soon(self, node: str = "alpha") -> None:
        """Its owner's hours end: it will have to go."""
        self.campus.reported(node, DepartureForetold(at_s=self.campus.now_s + 900.0))

    def staged(self, node: str, checkpoint: str) -> None:
        report = StateStaged(
            job_id=JobId("job"), epoch=1, checkpoint_id=CheckpointId(checkpoint), fetched_bytes=SIZE
        )
        self.campus.reported(node, report)


def stagings(decision: Decision) -> list[tuple[str, StageState]]:
    return [(node, order) for node, order in orders(decision) if isinstance(order, StageState)]


def test_a_job_that_will_have_to_go_has_its_state_brought_to_where_it_would_go() -> None:
    story = Story()
    assert stagings(story.saves_again()) == []  # a machine that stays is no reason
    story.ends_soon()
    decision = story.saves_again(later_s=60.0)
    [(node, order)] = stagings(decision)
    assert order == StageState(
        run_id=RunId("job-e1"),
        job_id=JobId("job"),
        epoch=1,
        checkpoint_id=CheckpointId(f"job-e1-a{story.saves}"),
        rate_bps=1e8,
    )
    assert Why.STAGED in whys(decision, "job")
    [copy] = story.campus.job().copies
    assert (copy.node_id, copy.there, copy.asked_bytes) == (node, False, SIZE)


def test_it_is_not_asked_for_again_while_it_is_fresh_and_is_when_it_has_become_old() -> None:
    story = Story()
    story.ends_soon()
    [(node, order)] = stagings(story.saves_again(later_s=60.0))
    story.staged(node, order.checkpoint_id)
    assert story.campus.job().lacking_bytes(NodeId(node)) == 0
    assert stagings(story.saves_again(later_s=60.0)) == []
    assert story.campus.job().lacking_bytes(NodeId(node)) == story.ship_bytes
    for _ in range(8):  # more than half of it is another state by now
        assert stagings(story.saves_again(later_s=60.0)) == []
    story.campus.later(AGAIN_S)
    story.ends_soon()
    [(again, _)] = stagings(story.saves_again(later_s=60.0))
    assert again == node


def test_a_job_that_rewrites_itself_is_not_copied() -> None:
    story = Story(ship_bytes=SIZE)
    story.ends_soon()
    assert stagings(story.saves_again()) == []


def test_without_staging_nothing_is_brought_ahead() -> None:
    story = Story(replace(AHEAD, staging=BASELINE.staging))
    story.ends_soon()
    assert stagings(story.saves_again()) == []


def test_while_it_is_saved_for_the_last_time_the_rest_goes_ahead() -> None:
    story = Story()
    noticed = story.campus.reported("alpha", NoticeGiven(deadline_s=story.campus.now_s + 600.0))
    [(node, order)] = stagings(noticed)
    [migration] = story.campus.state.migrations.values()
    assert (node, order.rate_bps) == (migration.destination, 0.0)


def test_a_move_goes_where_the_state_lies_already() -> None:
    story = Story()
    story.ends_soon()
    [(node, order)] = stagings(story.saves_again(later_s=60.0))
    story.staged(node, order.checkpoint_id)
    other = "gamma" if node == "beta" else "beta"
    fast = replace(facts(lab=other).capacity, uplink_bps=1.2e9)  # a little better, but for the copy
    story.campus.joins(other, replace(facts(lab=other), capacity=fast), incarnation="second")
    story.campus.reported("alpha", NoticeGiven(deadline_s=story.campus.now_s + 600.0))
    [migration] = story.campus.state.migrations.values()
    assert migration.destination == node


def test_when_the_job_is_over_its_copies_go_too() -> None:
    story = Story()
    story.ends_soon()
    [(node, _)] = stagings(story.saves_again(later_s=60.0))
    ended = story.campus.ended("job-e1", EndReason.FINISHED)
    dropped = [(at, order) for at, order in orders(ended) if isinstance(order, UnstageState)]
    assert dropped == [(node, UnstageState(run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1))]
    assert story.campus.job().copies == ()
    assert story.campus.state.counted_on == {}


def test_machines_that_keep_what_is_saved_on_them_let_go_of_it_at_the_end_though_nothing_was_durable() -> (
    None
):
    campus = Headquarters()
    campus.joins("alpha", replace(facts(lab="alpha"), data_address="10.0.0.1:8475"))
    campus.submits()
    campus.later(1.0).started("job-e1")
    campus.joins("beta", replace(facts(lab="beta"), data_address="10.0.0.2:8475"))
    campus.reported("alpha", NodeReclaimed(freed_after_s=0.0, killed=True))
    campus.ended("job-e1", EndReason.KILLED_BY_OWNER)
    campus.later(1.0).started("job-e2")
    assert campus.job().copies == ()
    ended = campus.ended("job-e2", EndReason.FINISHED)
    assert [at for at, order in orders(ended) if isinstance(order, UnstageState)] == ["alpha", "beta"]


def test_what_nobody_asked_for_is_not_believed() -> None:
    story = Story()
    story.ends_soon()
    [(node, _)] = stagings(story.saves_again(later_s=60.0))
    story.staged(node, "job-e1-a1")
    story.staged("alpha", f"job-e1-a{story.saves}")
    assert [copy.there for copy in story.campus.job().copies] == [False]


def test_a_run_tells_how_much_of_its_state_was_there() -> None:
    campus = Headquarters()
    campus.joins("alpha")
    campus.submits()
    told = whys(campus.started(found_bytes=GIB, direct_bytes=7, trouble="it broke off"), "job")
    assert told[-3:] == [Why.STATE_WAS_THERE, Why.STATE_CAME_DIRECTLY, Why.NO_DIRECT_WAY]


def test_an_agent_fetches_ahead_only_while_its_machine_is_lent_and_tells_when_it_is_there() -> None:
    agent = LoneAgent()
    order = StageState(
        run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1, checkpoint_id=CheckpointId("c"), rate_bps=1.0
    )
    assert deeds(agent.ordered(order)) == [FetchState(order=order)]
    fetched = StateFetched(job_id=JobId("job"), epoch=1, checkpoint_id=CheckpointId("c"), fetched_bytes=7)
    told = StateStaged(job_id=JobId("job"), epoch=1, checkpoint_id=CheckpointId("c"), fetched_bytes=7)
    assert reports(agent.hears(fetched)) == [told]
    agent.hears(OwnerPaused())
    assert deeds(agent.ordered(order)) == []
    drop = UnstageState(run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1)
    assert deeds(agent.ordered(drop)) == [DropState(job_id=JobId("job"))]


def test_an_owner_who_comes_back_changes_nothing_about_copies() -> None:
    story = Story()
    story.ends_soon()
    story.saves_again()
    copies = story.campus.job().copies
    story.campus.reported("beta", NodeResumed())
    assert story.campus.job().copies == copies


def test_a_machine_that_others_may_ask_is_asked_before_the_vault() -> None:
    story = Story(data_address="10.0.0.1:8475")
    story.ends_soon()
    [(node, order)] = stagings(story.saves_again(later_s=60.0))
    assert order.source is not None
    assert (order.source.address, order.source.bearer) == ("10.0.0.1:8475", node)
    assert order.source.token == token_of(key_of_run(KEY, 1), "job", node, order.source.until_s)
    assert "token" not in repr(order.source)
    assert story.campus.now_s < order.source.until_s <= story.campus.now_s + PASS_VALID_S
    assert not order.follow


def test_what_is_saved_there_is_kept_there_and_is_a_copy_too() -> None:
    story = Story(data_address="10.0.0.1:8475")
    [here] = story.campus.job().copies
    assert (here.node_id, here.there, here.behind_bytes) == ("alpha", True, 0)
    assert story.campus.job().lacking_bytes(NodeId("alpha")) == 0


def test_whoever_leaves_it_is_followed_whatever_it_rewrites() -> None:
    story = Story(data_address="10.0.0.1:8475", ship_bytes=SIZE)
    noticed = story.campus.reported("alpha", NoticeGiven(deadline_s=story.campus.now_s + 600.0))
    [(_, order)] = stagings(noticed)
    assert order.follow
    assert order.source is not None


def test_a_machine_its_owner_has_is_asked_for_nothing() -> None:
    story = Story(data_address="10.0.0.1:8475")
    story.campus.reported("alpha", NodeReclaimed(freed_after_s=0.0, killed=True))
    ended = story.campus.ended("job-e1", EndReason.KILLED_BY_OWNER)
    [start] = [order for _, order in orders(ended) if isinstance(order, StartRun)]
    assert start.source is None
    assert start.run_key == key_of_run(KEY, 2) != key_of_run(KEY, 1)


def test_how_a_state_came_is_told() -> None:
    story = Story(data_address="10.0.0.1:8475")
    story.ends_soon()
    [(node, order)] = stagings(story.saves_again(later_s=60.0))
    report = StateStaged(
        job_id=JobId("job"),
        epoch=1,
        checkpoint_id=order.checkpoint_id,
        fetched_bytes=SIZE,
        direct_bytes=5,
        trouble="alpha cannot be reached",
    )
    told = story.campus.reported(node, report)
    assert whys(told, "job") == [Why.STATE_READY, Why.NO_DIRECT_WAY]


def test_two_jobs_do_not_count_on_the_same_free_gpu() -> None:
    story = Story(jobs=(("job", "alpha"), ("other", "delta")))
    story.ends_soon("alpha")
    story.ends_soon("delta")
    [(first, _)] = stagings(story.saves_again(later_s=60.0))
    [(second, _)] = stagings(story.saves_again(later_s=60.0, job="other"))
    assert {first, second} == {"beta", "gamma"}


def test_only_so_many_copies_are_kept_and_the_oldest_goes() -> None:
    story = Story(free=("n1",))
    asked: list[str] = []
    for number in range(1, COPIES_MOST + 2):
        story.ends_soon()
        decision = story.saves_again(later_s=60.0)
        asked += [node for node, _ in stagings(decision)]
        story.campus.reported(f"n{number}", NodePaused())  # nobody goes there any more
        story.campus.joins(f"n{number + 1}", facts(lab=f"n{number + 1}"))
        story.campus.later(ASKED_WITHIN_S)
    assert asked == [f"n{number}" for number in range(1, COPIES_MOST + 2)]
    assert [copy.node_id for copy in story.campus.job().copies] == asked[1:]
    assert [node for node, order in orders(decision) if isinstance(order, UnstageState)] == ["n1"]


def test_what_a_job_with_a_key_saved_goes_to_nobody_who_does_not_run_it() -> None:
    story = Story(data_address="10.0.0.1:8475", vault_key="6b" * 32)
    story.ends_soon()
    assert stagings(story.saves_again(later_s=60.0)) == []
    noticed = story.campus.reported("alpha", NoticeGiven(deadline_s=story.campus.now_s + 600.0))
    assert stagings(noticed) == []
    assert story.campus.job().copies == ()


def test_a_copy_that_is_on_its_way_is_not_asked_for_again_when_the_job_leaves() -> None:
    story = Story(free=("beta",))
    story.ends_soon()
    assert [node for node, _ in stagings(story.saves_again(later_s=60.0))] == ["beta"]
    noticed = story.campus.later(1.0).reported("alpha", NoticeGiven(deadline_s=story.campus.now_s + 600.0))
    [migration] = story.campus.state.migrations.values()
    assert migration.destination == "beta"
    assert stagings(noticed) == []
