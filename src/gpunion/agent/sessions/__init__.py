"""Guests that somebody works in: how their sockets are reached, and what they say of themselves."""
