"""The tables. Records are kept whole, as the codec writes them; a column is there to look by it.

The last column of each is its row's seal (see `seals`). The index of the log has none: it can be made anew.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, String, Table, Text

metadata = MetaData()


def _seal() -> Column[int]:
    return Column("seal", BigInteger, nullable=False)


leader = Table(
    "leader",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("term", Integer, nullable=False),
    Column("holder", String, nullable=False),
    Column("until_s", Float, nullable=False),
    Column("newest_s", Float, nullable=False),
    Column("commits", Integer, nullable=False),  # every transaction is one
    Column("last_line", Integer, nullable=False),  # of the log
    Column("totals", Text, nullable=False),  # see `seals`
    _seal(),
)


def _records(name: str, *looked_up: str) -> Table:
    return Table(
        name,
        metadata,
        Column("id", String, primary_key=True),
        Column("phase", String, nullable=False, index=True),
        *(Column(column, String, nullable=False, index=True) for column in looked_up),
        Column("body", Text, nullable=False),
        _seal(),
    )


def _memories(name: str) -> Table:
    """Records that nobody looks for by anything but their id."""
    return Table(
        name,
        metadata,
        Column("id", String, primary_key=True),
        Column("body", Text, nullable=False),
        _seal(),
    )


jobs = _records("jobs")
runs = _records("runs", "job_id", "node_id")
nodes = _records("nodes")
checkpoints = _records("checkpoints", "job_id")
migrations = _records("migrations", "job_id")
lendings = _memories("lendings")
campus_memories = _memories("campus_memories")
accounts = _memories("accounts")
quotas = _memories("quotas")
reliabilities = _memories("reliabilities")
set_aside = _memories("set_aside")
images = _records("images")
environments = _memories("environments")
held_jobs = _memories("held_jobs")

timers = Table(
    "timers",
    metadata,
    Column("key", String, primary_key=True),
    Column("at_s", Float, nullable=False),
    _seal(),
)

orders = Table(
    "orders",
    metadata,
    Column("node_id", String, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    _seal(),
)

channels = Table(
    "channels",
    metadata,
    Column("node_id", String, primary_key=True),
    Column("last_order_seq", Integer, nullable=False),
    _seal(),
)

marks = Table(
    "marks",
    metadata,
    Column("node_id", String, primary_key=True),
    Column("incarnation", String, nullable=False),
    Column("seq", Integer, nullable=False),
    _seal(),
)

decisions = Table(
    "decisions",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at_s", Float, nullable=False),
    Column("event", String, nullable=False),
    Column("subjects", Text, nullable=False),
    Column("reasons", Text, nullable=False),
    Column("effects", Text, nullable=False),
    _seal(),
)

log_subjects = Table(
    "log_subjects",
    metadata,
    Column("subject", String, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", String, primary_key=True),
    Column("job_id", String, nullable=False),
    Column("at_s", Float, nullable=False),
    _seal(),
)

credentials = Table(
    "credentials",
    metadata,
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),
    Column("lab", String, nullable=False),
    Column("created_s", Float, nullable=False),
    _seal(),
)

join_tokens = Table(
    "join_tokens",
    metadata,
    Column("digest", String, primary_key=True),
    Column("expires_s", Float, nullable=False),
    Column("used_by", String, nullable=True),
    _seal(),
)

place_marks = Table(
    "place_marks",
    metadata,
    Column("directory", String, primary_key=True),
    Column("mark", String, nullable=False),
    _seal(),
)

# Whose rows are counted: all that are ever replaced or dropped. The log only grows.
COUNTED = (
    jobs,
    runs,
    nodes,
    checkpoints,
    migrations,
    lendings,
    campus_memories,
    accounts,
    quotas,
    reliabilities,
    images,
    environments,
    set_aside,
    held_jobs,
    timers,
    orders,
    channels,
    marks,
    idempotency,
    credentials,
    join_tokens,
    place_marks,
)
