"""Where checkpoints live: nothing here knows of campus, agent or engine."""
