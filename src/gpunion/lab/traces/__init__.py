"""Readers of public traces: who wanted machines back and when, and what work there was.

A file is known by its columns, never by its name, and is read as a stream. The traces themselves are no part
of this repository.
"""
