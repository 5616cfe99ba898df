"""Every wait of the protocol, in seconds, with its reason. Agents are told them at the handshake."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    heartbeat_s: float = 2.0
    lease_s: float = 10.0  # an agent may go on this long after a heartbeat of its was answered
    grace_s: float = 3.0  # then its guests get this long for a last save
    # Clocks drift apart by at most this share of a wait (10 % is far beyond any quartz), plus a hiccup.
    drift: float = 0.1
    hiccup_s: float = 0.5
    resend_s: float = 3.0  # an unanswered frame is sent again after this
    save_timeout_s: float = 120.0  # a program that does not answer a request by then will not
    stop_grace_s: float = 5.0  # from SIGTERM to SIGKILL when a user stops a job
    own_save_patience_s: float = 2.0  # how long an agent in notice waits for the coordinator's plan
    start_timeout_s: float = 600.0  # fetching, restoring and starting; then the order counts as failed
    parked_at_most_s: float = 900.0  # who stands in memory for a job of a higher class: then it has its turn
    avoid_s: float = 30.0  # a node that refused a job is not asked again for this long
    session_idle_s: float = 7200.0  # a session in which nobody works for so long ends; 0: none does
    replan_s: float = 15.0  # waiting jobs are looked at again at least this often

    def fence_s(self, autonomy_s: float = 0.0) -> float:
        """From the last word heard of a node until its guests are certainly gone."""
        promised = self.lease_s + self.grace_s + autonomy_s
        return promised * (1 + self.drift) + self.hiccup_s
