"""The store in a SQL database: SQLite today, written so that PostgreSQL fits.

`database.SqlStore(place)` implements `ports.database.Store`. What differs between databases is in `engines`.
"""
