"""How much is lent and used: counted as it happens, kept as sums, and told by lab and person."""
