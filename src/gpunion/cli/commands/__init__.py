"""One module a command: `configure` adds its flags, `run` does it, `JSON` says what --json prints."""
