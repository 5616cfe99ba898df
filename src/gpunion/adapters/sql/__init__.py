"""The store in a SQL database: SQLite today, written so that PostgreSQL fits.

`store.SqlStore(place)` implements `ports.store.Store`. What differs between databases is in `engines`.
"""
