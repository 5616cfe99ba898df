"""Commands of who works in a session."""
