"""Windows compared with other ways to share a campus: `gpunion sim report --part windows`."""
