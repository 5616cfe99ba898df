"""What a simulation is told."""
