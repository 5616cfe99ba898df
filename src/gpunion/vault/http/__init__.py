"""A store over HTTP: its server and its client."""
