"""One module or folder a kind of location."""
