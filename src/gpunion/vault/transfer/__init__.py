"""Directories into a vault, out of it, and from store to store."""
