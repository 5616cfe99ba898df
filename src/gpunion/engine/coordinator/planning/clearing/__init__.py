"""Windows are offered, jobs bid, and who wins begins there: gaps, turns, and places for wide jobs."""
