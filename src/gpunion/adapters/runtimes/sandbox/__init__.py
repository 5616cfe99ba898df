"""Guests as processes of this machine, inside bubblewrap where it is there."""
