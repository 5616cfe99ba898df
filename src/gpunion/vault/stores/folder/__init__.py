"""A folder as a store."""
