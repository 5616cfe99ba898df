"""The single writer and what stands around it."""
