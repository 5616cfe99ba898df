"""The first schema: records, timers, orders, the log, keys, credentials, marks, the leader."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None


def _seal() -> sa.Column[int]:
    return sa.Column("seal", sa.BigInteger, nullable=False)


def upgrade() -> None:
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("term", sa.Integer, nullable=False),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("until_s", sa.Float, nullable=False),
        sa.Column("newest_s", sa.Float, nullable=False),
        sa.Column("commits", sa.Integer, nullable=False),
        sa.Column("last_line", sa.Integer, nullable=False),
        sa.Column("totals", sa.Text, nullable=False),
        _seal(),
    )
    _create_records()
    _create_channels()
    _create_log()
    _create_identities()
    _create_memories()
    op.create_table(
        "place_marks",
        sa.Column("directory", sa.String, primary_key=True),
        sa.Column("mark", sa.String, nullable=False),
        _seal(),
    )


def _create_records() -> None:
    looked_up = {
        "jobs": (),
        "runs": ("job_id", "node_id"),
        "nodes": (),
        "checkpoints": ("job_id",),
        "migrations": ("job_id",),
        "images": (),
    }
    for name, columns in looked_up.items():
        op.create_table(
            name,
            sa.Column("id", sa.String, primary_key=True),
            sa.Column("phase", sa.String, nullable=False),
            *(sa.Column(column, sa.String, nullable=False) for column in columns),
            sa.Column("body", sa.Text, nullable=False),
            _seal(),
        )
        for column in ("phase", *columns):
            op.create_index(f"ix_{name}_{column}", name, [column])


def _create_memories() -> None:
    for name in (
        "lendings",
        "campus_memories",
        "accounts",
        "quotas",
        "reliabilities",
        "environments",
        "set_aside",
        "held_jobs",
    ):
        op.create_table(
            name,
            sa.Column("id", sa.String, primary_key=True),
            sa.Column("body", sa.Text, nullable=False),
            _seal(),
        )


def _create_channels() -> None:
    op.create_table(
        "timers",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("at_s", sa.Float, nullable=False),
        _seal(),
    )
    op.create_table(
        "orders",
        sa.Column("node_id", sa.String, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        _seal(),
    )
    op.create_table(
        "channels",
        sa.Column("node_id", sa.String, primary_key=True),
        sa.Column("last_order_seq", sa.Integer, nullable=False),
        _seal(),
    )
    op.create_table(
        "marks",
        sa.Column("node_id", sa.String, primary_key=True),
        sa.Column("incarnation", sa.String, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        _seal(),
    )


def _create_log() -> None:
    op.create_table(
        "decisions",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_s", sa.Float, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("subjects", sa.Text, nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("effects", sa.Text, nullable=False),
        _seal(),
    )
    op.create_table(
        "log_subjects",
        sa.Column("subject", sa.String, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    )
    op.create_table(
        "idempotency",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("at_s", sa.Float, nullable=False),
        _seal(),
    )


def _create_identities() -> None:
    op.create_table(
        "credentials",
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False, unique=True),
        sa.Column("lab", sa.String, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        _seal(),
    )
    op.create_table(
        "join_tokens",
        sa.Column("digest", sa.String, primary_key=True),
        sa.Column("expires_s", sa.Float, nullable=False),
        sa.Column("used_by", sa.String, nullable=True),
        _seal(),
    )
