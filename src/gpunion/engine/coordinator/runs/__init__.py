"""What can be done to a run."""
