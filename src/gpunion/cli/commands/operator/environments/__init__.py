"""Named sets of packages: published, listed and removed."""
