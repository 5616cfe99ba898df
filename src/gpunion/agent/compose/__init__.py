"""Puts an agent together. The only package here that knows which technologies there are."""
