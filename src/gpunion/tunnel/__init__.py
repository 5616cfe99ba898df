"""Streams of bytes through one connection of an agent, each to a socket, a port or a terminal of a guest."""
