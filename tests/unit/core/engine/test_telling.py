"""What was decided, told: the story of one thing, and the transcript that two shells can compare."""

from __future__ import annotations

from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.events import OwnerKilled, OwnerReclaimed, OwnerResumed
from gpunion.domain.reasons.reason import Why, because
from gpunion.engine.coordinator.story import Line, tell
from gpunion.engine.transcript import Transcript, full_line, transcript
from tests.builders import Campus, a_campus, a_spec


def test_a_story_is_of_one_subject_in_the_order_of_time() -> None:
    entries = [
        (1.0, because("job", Why.STARTED, node="alpha")),
        (2.0, because("other", Why.CANCELLED)),
        (3.0, because("job", Why.CANCELLED)),
    ]
    assert tell(entries, "job") == [
        Line(at_s=1.0, why=Why.STARTED, sentence="started on alpha from the beginning"),
        Line(at_s=3.0, why=Why.CANCELLED, sentence="cancelled by its user"),
    ]


def test_what_comes_again_and_again_is_folded_into_its_last() -> None:
    entries = [(float(step), because("job", Why.SAVED, step=step, bytes=1)) for step in (1, 2, 3)]
    entries.append((4.0, because("job", Why.STOP_ASKED)))
    entries.append((5.0, because("job", Why.STOP_ASKED)))
    lines = tell(entries, "job")
    assert [(line.at_s, line.why, line.times) for line in lines] == [
        (3.0, Why.SAVED, 3),
        (4.0, Why.STOP_ASKED, 1),
        (5.0, Why.STOP_ASKED, 1),
    ]
    assert lines[0].sentence == "step 3 is durable (1 bytes shipped)"


def test_saves_that_fail_for_the_same_reason_are_one_line_and_another_reason_is_another() -> None:
    troubles = ["full", "full", "away", "full"]
    entries = [
        (float(number), because("job", Why.SAVE_FAILED, checkpoint=f"c{number}", trouble=trouble))
        for number, trouble in enumerate(troubles)
    ]
    assert [(line.at_s, line.times) for line in tell(entries, "job")] == [(1.0, 2), (2.0, 1), (3.0, 1)]


def an_eventful_day() -> Campus:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=400))
    campus.advance(30)
    first = campus.machine_of()
    first.owner(OwnerReclaimed(notice_s=30))
    campus.advance(5)
    first.owner(OwnerResumed())
    campus.advance(5)
    second = campus.machine_of()
    second.owner(OwnerKilled())
    campus.advance(5)
    third = campus.machine_of()
    third.crashes()
    campus.advance(3)
    third.restarts()
    third.linked = False
    campus.advance(40)
    third.linked = True
    second.owner(OwnerResumed())
    campus.advance(60)
    machine = campus.machine_of()
    machine.crashes()
    machine.restarts(forgetful="second")
    campus.advance(600)
    return campus


def test_a_transcript_tells_what_happened_what_was_ordered_and_why() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=10))
    campus.advance(20)
    assert list(transcript(campus.commits)) == [
        "NodeJoined alpha |  | node_joined alpha",
        "JobSubmitted job | alpha <- StartRun job-e1 afresh | submitted job, placed job",
        "alpha: RunStarted job-e1 |  | started job",
        "alpha: RunEnded job-e1 reason=finished exit_code=0 |  | finished job",
    ]


def test_a_transcript_of_a_move_leaves_out_what_differs_from_shell_to_shell() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=1000))
    campus.advance(450)
    source = campus.machine_of()
    other = next(node for node in campus.machines if node != source.node_id)
    source.owner(OwnerReclaimed(notice_s=30))
    told = list(transcript(campus.commits))
    here = source.node_id
    assert told[4:] == [
        f"{here}: NoticeGiven | {here} <- TakeCheckpoint job-e1 final"
        f" | owner_wants_node {here}, owner_wants_node job",
        f"{here}: CheckpointCaptured job-e1",
        f"{here}: CheckpointDurable job-e1 final",
        f"{here}: RunEnded job-e1 reason=saved | {other} <- StartRun job-e2 resume | placed job",
        f"{here}: NodeReclaimed |  | machine_free {here}",
        f"{other}: RunStarted job-e2 |  | resumed job, moved job",
    ]
    assert [line.partition(" |")[0] for line in transcript(source.commits)] == [
        "StartRun job-e1 afresh",
        "GuestStarted job-e1",
        "OwnerReclaimed",
        "TakeCheckpoint job-e1 final",
        "GuestSaved job-e1",
        "CheckpointShipped job-e1",
        "GuestExited job-e1 cause=saved",
    ]


def test_every_line_of_an_eventful_day_can_be_told_in_short_and_in_full() -> None:
    campus = an_eventful_day()
    histories: list[list[Commit | AgentCommit]] = [list(campus.commits)]
    histories += [list(machine.commits) for machine in campus.machines.values()]
    for commits in histories:
        told = Transcript()
        lines = [told.line(commit) for commit in commits]
        assert [line for line in lines if line] == list(transcript(commits))
        assert all(full_line(commit) for commit in commits)
        assert not any(line is not None and line.endswith("|") for line in lines)
    words = "\n".join(line for commits in histories for line in transcript(commits))
    for word in ("AgentStarted", "ForgetOrders", "TimerFired give_up", "OwnerKilled", "StartGuest"):
        assert word in words
    assert "LeaseRenewed" not in words
    assert "SetTimer" not in words
    assert "SetTimer" in "\n".join(full_line(commit) for commit in campus.commits)


def test_a_last_save_that_fails_is_told_with_its_trouble() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=1000))
    campus.advance(30)
    source = campus.machine_of()
    source.answers = False
    source.owner(OwnerReclaimed(notice_s=10))
    campus.advance(12)
    assert f"{source.node_id}: CheckpointFailed job-e1 deadline" in list(transcript(campus.commits))
