"""A modelled program, its guest and its machine's clock."""
