"""The places checkpoints are kept in, as the coordinator sees them."""
