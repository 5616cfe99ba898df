"""Alembic's scripts, inside the package so an installed coordinator can bring its database up to date."""
