"""Protocols that the shells need from the world, and the faults they may raise.

A port names what is wanted in the words of the glossary and says when each call may be made twice,
late or after a crash. Technologies live in `gpunion.adapters`; a port knows none of them.
"""
