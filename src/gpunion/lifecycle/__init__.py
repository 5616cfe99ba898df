"""One state machine a file. Each is a table of edges: it refuses what is not in it, and draws itself."""
