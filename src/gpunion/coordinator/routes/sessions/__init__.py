"""Sessions: listed, looked at, ended, and reached through streams that wait for one that moves."""
