"""The fifteen invariants of the architecture, judged on the truth of the simulated world."""
