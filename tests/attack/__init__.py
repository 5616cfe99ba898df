"""Attacks on a campus: frames that lie on the pure coordinator, and hostile peers of real processes."""
