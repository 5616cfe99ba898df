"""The second, faster simulator: a campus in fair weather."""
