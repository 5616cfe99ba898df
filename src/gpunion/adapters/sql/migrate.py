"""Brings a database's schema up to date, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from gpunion.ports.database import StoreBroken

SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection) -> None:
    """Within the caller's transaction: the schema moves as a whole or not at all."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreBroken(
            f"this database has a schema this version does not know ({error}); "
            "it was probably written by a newer gpunion: use that version, or another data directory"
        ) from error
