"""What Alembic runs to migrate. The connection comes from `migrate.upgrade`, inside its transaction."""

from __future__ import annotations

from alembic import context

from gpunion.adapters.sql.tables import metadata

# Batches rebuild a table where the database cannot alter it (SQLite).
context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
