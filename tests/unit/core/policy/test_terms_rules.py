"""What follows from house rules: the machine and single GPUs are withheld and lent again."""

from __future__ import annotations

from gpunion.domain.jobs.guest import Holding, OwnerState
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.policy.terms.rules import HEAT, HOURS, PRESENCE, Presence, Rule, SingleGpus, WholeMachine, Word

TERMS = HoldCause.TERMS
CLOSED = Rule(name=HOURS, detail="it is not lent at this hour", notice_s=60.0)
HERE = Rule(name=PRESENCE, detail="kim on tty1 is logged in", notice_s=30.0)
HOT = Rule(name=HEAT, detail="it has 88 C", notice_s=60.0)
SHARING = Holding()
BY_TERMS = Holding(owner_state=OwnerState.RECLAIMED, cause=TERMS)
BY_OWNER = Holding(owner_state=OwnerState.RECLAIMED)


def closing(left_s: float) -> Rule:
    return Rule(name=HOURS, detail="it is lent until Mon 08:00", notice_s=left_s, due=True)


def reclaiming(deadline_s: float) -> Holding:
    return Holding(owner_state=OwnerState.RECLAIMING, cause=TERMS, deadline_s=deadline_s)


def withheld(cause: HoldCause = TERMS, phase: GpuPhase = GpuPhase.RECLAIMED) -> list[WithheldGpu]:
    return [WithheldGpu(index=0, phase=phase, cause=cause)]


def taken(*rules: Rule, gpus: tuple[int, ...] = ()) -> OwnerReclaimed:
    notice_s = min(rule.notice_s for rule in rules)
    return OwnerReclaimed(
        notice_s=notice_s, gpus=gpus, cause=TERMS, detail="; ".join(rule.detail for rule in rules)
    )


def test_rules_withhold_the_machine_and_give_it_back_when_none_is_left() -> None:
    rules = WholeMachine()
    assert rules.look(0.0, [], SHARING) is None
    assert rules.look(1.0, [CLOSED, HERE], SHARING) == taken(CLOSED, HERE)
    assert rules.look(2.0, [CLOSED, HERE], BY_TERMS) is None
    assert rules.look(3.0, [HERE], BY_TERMS) is None
    assert rules.look(4.0, [], BY_TERMS) == OwnerResumed(cause=TERMS)
    assert rules.look(5.0, [], SHARING) is None


def test_the_owner_s_own_word_is_above_every_rule() -> None:
    rules = WholeMachine()
    assert rules.look(0.0, [CLOSED], BY_OWNER) is None
    assert rules.look(1.0, [], BY_OWNER) is None
    for holding in (
        Holding(owner_state=OwnerState.LEFT),
        Holding(owner_state=OwnerState.RECLAIMING, leaving=True, cause=TERMS),
    ):
        assert rules.look(2.0, [CLOSED], holding) is None


def test_what_the_owner_lends_in_spite_of_a_rule_stays_lent_until_the_rule_has_rested() -> None:
    rules = WholeMachine()
    rules.look(0.0, [closing(60.0)], SHARING)
    assert rules.look(1.0, [closing(59.0)], SHARING) is None  # they said resume
    assert rules.look(60.0, [CLOSED], SHARING) is None
    assert rules.excused == {HOURS}
    assert rules.look(61.0, [CLOSED, HERE], SHARING) == taken(HERE)  # another rule is another matter
    assert rules.look(62.0, [CLOSED], BY_TERMS) == OwnerResumed(cause=TERMS)
    assert rules.look(100.0, [], SHARING) is None
    assert rules.look(200.0, [CLOSED], SHARING) == taken(CLOSED)


def test_a_machine_that_the_owner_held_is_lent_by_their_word_whatever_the_hours_say_meanwhile() -> None:
    """The last word counts, and a rule that was at rest then is another matter."""
    rules = WholeMachine()
    assert rules.look(0.0, [CLOSED], BY_OWNER) is None
    assert rules.look(1.0, [CLOSED], SHARING) is None  # they said resume
    assert rules.excused == {HOURS}
    assert rules.look(2.0, [CLOSED, HERE], SHARING) == taken(HERE)
    rules = WholeMachine()
    rules.look(0.0, [CLOSED], BY_OWNER)
    rules.look(1.0, [], BY_OWNER)
    assert rules.look(2.0, [CLOSED], SHARING) == taken(CLOSED)


def test_a_clock_that_was_put_forward_shortens_the_notice_and_never_lengthens_it() -> None:
    rules = WholeMachine()
    assert rules.look(100.0, [closing(60.0)], SHARING) == taken(closing(60.0))
    assert rules.look(101.0, [closing(59.0)], reclaiming(160.0)) is None
    assert rules.look(102.0, [closing(20.0)], reclaiming(160.0)) == taken(closing(20.0))
    assert rules.look(103.0, [closing(500.0)], reclaiming(122.0)) is None
    assert rules.look(104.0, [HERE], reclaiming(122.0)) is None


def test_a_gpu_is_withheld_while_it_is_hot_and_lent_again_when_it_is_cool() -> None:
    gpus = SingleGpus()
    assert not gpus.too_hot(0.0, 0, 90.0, 83.0)  # one reading may be wrong
    assert gpus.too_hot(1.0, 0, 90.0, 83.0)
    assert gpus.too_hot(2.0, 0, 82.0, 83.0)  # not much cooler yet
    assert gpus.too_hot(10.0, 0, 78.0, 83.0)
    assert gpus.too_hot(61.0, 0, 78.0, 83.0)
    assert not gpus.too_hot(63.0, 0, 78.0, 83.0)
    assert not gpus.too_hot(64.0, 0, 82.0, 83.0)

    assert gpus.look(0.0, {0: HOT, 1: None}, {}, []) == [taken(HOT, gpus=(0,))]
    assert gpus.look(1.0, {0: HOT}, {}, withheld()) == []
    assert gpus.look(2.0, {0: None}, {}, withheld()) == [OwnerResumed(gpus=(0,), cause=TERMS)]


def test_heat_is_no_matter_of_opinion_but_presence_is() -> None:
    gpus = SingleGpus()
    words: list[Word] = [taken(HOT, HERE, gpus=(0,))]
    assert gpus.look(0.0, {0: HOT}, {0: HERE}, []) == words
    gpus.look(1.0, {0: HOT}, {0: HERE}, withheld())
    assert gpus.look(2.0, {0: HOT}, {0: HERE}, []) == [taken(HOT, gpus=(0,))]  # they said resume
    gpus.look(3.0, {0: HOT}, {0: HERE}, withheld())
    assert gpus.look(4.0, {0: None}, {0: HERE}, withheld()) == [OwnerResumed(gpus=(0,), cause=TERMS)]
    assert gpus.look(5.0, {0: None}, {0: HERE}, []) == []
    gpus.look(6.0, {0: None}, {}, [])
    assert gpus.look(7.0, {0: None}, {0: HERE}, []) == [taken(HERE, gpus=(0,))]


def test_a_gpu_that_own_work_gave_back_is_withheld_again_where_a_rule_says_so() -> None:
    gpus = SingleGpus()
    gpus.look(0.0, {}, {0: HERE}, withheld(HoldCause.OWN_WORK))
    assert gpus.look(1.0, {}, {0: HERE}, []) == [taken(HERE, gpus=(0,))]
    assert gpus.look(2.0, {}, {}, withheld(HoldCause.OWNER)) == []
    assert gpus.look(3.0, {0: HOT}, {}, withheld(HoldCause.OWNER, GpuPhase.PAUSED)) == [taken(HOT, gpus=(0,))]


def test_somebody_is_there_until_it_has_been_quiet() -> None:
    presence = Presence()
    assert presence.look(0.0, "", 60.0) == ""
    assert presence.look(1.0, "kim", 60.0) == "kim"
    assert presence.look(60.0, "", 60.0) == "kim"
    assert presence.look(61.0, "", 60.0) == ""
    assert presence.look(62.0, "kim", 0.0) == "kim"
    assert presence.look(63.0, "", 0.0) == ""
