"""The evaluation's commands."""
