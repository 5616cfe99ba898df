"""What the coordinator counts, and how it is shown to whoever watches from outside."""
