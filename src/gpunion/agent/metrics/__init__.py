"""What this machine shows of its GPUs, to the campus and to its owner."""
