"""An owner's terms: read, kept in force, edited, watched."""
