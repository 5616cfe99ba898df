"""The program on an owner's machine: it hosts guests while the owner lets it, and not a moment longer."""
