"""Why things happen: codes, facts and sentences."""
