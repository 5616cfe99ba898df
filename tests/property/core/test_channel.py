"""Whatever a connection does to frames, each item is taken exactly once and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpunion.domain.ids import RunId
from gpunion.domain.protocol.effects import CancelTimer, SetTimer
from gpunion.domain.protocol.timers import CoordinatorTimer, LessonDue, ReplanDue, SaveDue, text_of
from gpunion.engine.channel import Receiver, Sender, Skew
from gpunion.engine.timers import Timers
from tests.searching import FEW, QUICK

RESEND_S = 3.0


class Connection(RuleBasedStateMachine):
    """A sender, a receiver, and between them a wire that loses, doubles and reorders."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.sender: Sender[int] = Sender()
        self.receiver = Receiver()
        self.pushed: list[int] = []
        self.taken: list[int] = []
        self.wire: list[tuple[int, int]] = []
        self.answers: list[int] = []

    @rule(item=st.integers())
    def push(self, item: int) -> None:
        self.pushed.append(item)
        assert self.sender.push(item) == len(self.pushed)

    @rule()
    def send(self) -> None:
        self.wire.extend(self.sender.due(self.now_s, RESEND_S))

    @rule(seconds=st.sampled_from([0.5, 3.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @precondition(lambda self: self.wire)
    @rule(which=st.integers(0, 999))
    def lose(self, which: int) -> None:
        self.wire.pop(which % len(self.wire))

    @precondition(lambda self: self.wire)
    @rule(which=st.integers(0, 999))
    def double(self, which: int) -> None:
        self.wire.append(self.wire[which % len(self.wire)])

    @precondition(lambda self: self.wire)
    @rule(which=st.integers(0, 999))
    def arrive(self, which: int) -> None:
        seq, item = self.wire.pop(which % len(self.wire))
        if self.receiver.expects(seq):
            self.taken.append(item)
            self.receiver.took(seq)
        self.answers.append(self.receiver.last_seq)

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 999))
    def acknowledge(self, which: int) -> None:
        self.sender.acknowledge(self.answers.pop(which % len(self.answers)))

    @rule()
    def reconnect(self) -> None:
        self.wire.clear()
        self.sender.reconnected()

    @rule()
    def restart_of_the_sender(self) -> None:
        waiting, last_seq = list(self.sender.waiting.items()), self.sender.last_seq
        self.sender = Sender()
        self.sender.restore(waiting, last_seq)

    @invariant()
    def what_was_taken_is_a_beginning_of_what_was_pushed(self) -> None:
        assert self.taken == self.pushed[: len(self.taken)]

    @invariant()
    def what_was_not_taken_is_still_there_to_be_sent(self) -> None:
        missing = range(len(self.taken) + 1, len(self.pushed) + 1)
        assert set(missing) <= set(self.sender.waiting)

    def teardown(self) -> None:
        """Once the wire behaves, everything arrives."""
        self.now_s += RESEND_S
        for seq, item in self.sender.due(self.now_s, 0.0):
            if self.receiver.expects(seq):
                self.taken.append(item)
                self.receiver.took(seq)
        assert self.taken == self.pushed
        self.sender.acknowledge(self.receiver.last_seq)
        assert self.sender.waiting == {}


TestConnection = Connection.TestCase
TestConnection.settings = FEW


@QUICK
@given(
    offset_s=st.floats(-1e4, 1e4),
    delays=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=20),
    their_s=st.floats(0, 1e4),
)
def test_a_translated_moment_is_never_early_and_late_by_no_more_than_the_least_delay(
    offset_s: float, delays: list[float], their_s: float
) -> None:
    skew = Skew()
    for index, delay_s in enumerate(delays):
        sent_s = float(index)
        skew.learn(sent_s + offset_s + delay_s, sent_s)
    error_s = skew.here(their_s) - (their_s + offset_s)
    assert -1e-6 <= error_s <= min(delays) + 1e-6


some_timer = st.sampled_from([ReplanDue(), LessonDue(), *(SaveDue(run_id=RunId(name)) for name in "ab")])
timer_effects = st.lists(
    st.one_of(
        st.builds(SetTimer, timer=some_timer, at_s=st.integers(0, 9).map(float)),
        st.builds(CancelTimer, timer=some_timer),
    )
)


@QUICK
@given(effects=timer_effects)
def test_each_timer_fires_once_in_order_of_time_at_its_last_moment(
    effects: list[SetTimer[CoordinatorTimer] | CancelTimer[CoordinatorTimer]],
) -> None:
    expected: dict[str, float] = {}
    for effect in effects:
        if isinstance(effect, SetTimer):
            expected[text_of(effect.timer)] = effect.at_s
        else:
            expected.pop(text_of(effect.timer), None)
    timers: Timers[CoordinatorTimer] = Timers()
    timers.apply(effects)
    fired = []
    while (at_s := timers.next_s()) is not None:
        timer = timers.due(at_s)
        assert timer is not None
        fired.append((at_s, text_of(timer)))
        timers.fired(timer)
    assert fired == sorted((at_s, text) for text, at_s in expected.items())
