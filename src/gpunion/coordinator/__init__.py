"""The coordinator as a process: one writer, an HTTP API, and a connection to every agent."""
