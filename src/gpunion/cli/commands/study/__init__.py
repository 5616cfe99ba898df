"""Commands for trying things on one machine."""
