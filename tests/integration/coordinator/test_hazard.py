"""A coordinator's memory of departures, over HTTP and across kill -9."""

from __future__ import annotations

import signal
from itertools import islice

from gpunion.domain.nodes.signs import Sign
from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant, ReportFrame
from gpunion.domain.protocol.reports import NodeReclaimed, SignsShown
from tests.integration.coordinator.process import Coordinator


def test_what_was_seen_of_a_node_outlives_the_coordinator(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.node() as node:
        killed = NodeReclaimed(freed_after_s=0.5, killed=True)
        node.send(ReportFrame(seq=1, ack=0, sent_s=0.0, report=SignsShown(signs=(Sign.KEYBOARD,))))
        node.send(ReportFrame(seq=2, ack=0, sent_s=0.0, report=killed))
        node.send(Heartbeat(sent_s=1.0, ack=0))
        node.receive_a(LeaseGrant)
        with coordinator.client() as client:
            before = client.hazard()
            seen_by_guests = [client.nodes(), client.node_hazard("alpha"), before["nodes"]]
            log = list(islice(client.events(since=0), 2))
    coordinator.end(signal.SIGKILL)
    coordinator.start()
    with coordinator.client() as client:
        after = client.hazard()
        detail = client.node_hazard("alpha")
    assert before["learns"] is True
    assert before["announced_share"] < 0.5  # half are assumed to be announced until one was not
    assert after["announced_share"] == before["announced_share"]
    assert [(one["shown"], one["departures"]) for one in before["signs"]] == [(["keyboard"], 1.0)]
    assert before["signs"][0]["factor"] > 1.0
    assert after["signs"] == before["signs"]
    assert "keyboard" not in repr(seen_by_guests)  # that somebody is there is nobody's business
    assert [line["event"] for line in log] == ["NodeJoined", "NodeReported.NodeReclaimed"]
    assert after["next_lesson_at"] == before["next_lesson_at"]
    assert [node["phase"] for node in after["nodes"]] == ["reclaimed"]
    assert after["nodes"][0]["stays"] == []
    assert len(detail["departures_per_h"]) == 168
