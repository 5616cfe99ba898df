"""The evaluation: every policy on the same campuses, measured alike, as numbers, tables and pictures."""
