"""The agent's engine."""
