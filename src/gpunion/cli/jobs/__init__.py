"""From flags and files to a job, its directory sent and its results fetched."""
