"""Connections and bodies before a route sees them: bounded in number, time and size."""
