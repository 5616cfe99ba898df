"""What an agent knows of each run, also after a restart."""
