"""What an operator may choose where the database has lost something."""

from __future__ import annotations

from gpunion.ports.database import Mend

# Besides putting back a backup; nothing is done to a database that is sound.
MENDS = {
    Mend.ACCEPT_LOSS: "where the database has lost something: go on with what can be read of it",
    Mend.BEGIN_ANEW: "where the database cannot be read or is gone: put it aside and begin an empty campus",
}


def flag_of(mend: Mend) -> str:
    return "--" + mend.value.replace("_", "-")
