"""The evaluation: not part of what owners install."""
