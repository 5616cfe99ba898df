"""What goes into an engine, what comes out, and what crosses the one connection."""
