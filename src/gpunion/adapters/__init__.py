"""One folder a technology: each implements a port and translates the technology's errors into its faults."""
