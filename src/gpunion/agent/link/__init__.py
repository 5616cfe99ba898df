"""The one connection to the coordinator, joining included."""
