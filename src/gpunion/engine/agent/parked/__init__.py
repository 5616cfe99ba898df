"""Guests that stand still in the memory of their machine: for their owner, or for a job of a higher class."""
