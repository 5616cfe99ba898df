"""What should happen now."""
