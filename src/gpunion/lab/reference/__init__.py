"""The reference campus: its machines, owners who come as a trace says, and work as a trace says."""
