"""The history of lending and use in a SQLite file of its own, beside the campus's database."""

from gpunion.adapters.usage_history.file import SqliteUsageHistory

__all__ = ["SqliteUsageHistory"]
