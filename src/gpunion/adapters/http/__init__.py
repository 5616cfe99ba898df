"""The coordinator over HTTP and one WebSocket."""
