"""Blocks from machine to machine over one connection, for owners who open a port for it."""
