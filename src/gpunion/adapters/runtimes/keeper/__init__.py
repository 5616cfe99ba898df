"""What all runtimes share: the process that stays with a guest, and what it watches."""
