"""The coordinator's engine."""
