"""What one event means."""
