"""Links, flows and their rates."""
