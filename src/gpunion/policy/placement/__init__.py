"""Where may a job run, and where best? filter -> score -> pick, with a verdict for every node."""
