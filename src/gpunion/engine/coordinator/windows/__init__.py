"""What a job that runs in windows has: an end, a place kept for it, and what lies between two pieces."""
