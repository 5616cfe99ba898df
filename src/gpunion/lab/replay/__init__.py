"""What a campus recorded, run again with machines added or taken away."""
