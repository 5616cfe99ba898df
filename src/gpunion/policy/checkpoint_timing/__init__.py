"""When to save, from what a departure would cost, how likely it is, and what the wire can carry."""
