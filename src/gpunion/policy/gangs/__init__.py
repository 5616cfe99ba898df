"""Members that run all together or not at all: what they do, where they go, at which step they save."""
