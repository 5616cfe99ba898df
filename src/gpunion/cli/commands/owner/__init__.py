"""Commands for owners."""
