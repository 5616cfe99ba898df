"""Windows: gaps that are offered, pieces of work that fit them, who gets which, and for how long."""
