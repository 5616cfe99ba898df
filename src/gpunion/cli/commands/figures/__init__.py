"""Commands that show figures of a campus."""
