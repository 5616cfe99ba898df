"""Records of jobs, of their runs, and of the agent's view of a run."""
