"""Commands for guests."""
