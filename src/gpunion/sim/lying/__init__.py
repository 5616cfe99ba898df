"""Machines that say what is not so."""
