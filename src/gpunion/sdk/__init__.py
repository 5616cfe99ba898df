"""The public library: clients of the coordinator, and `job`, which runs inside a guest's program."""
