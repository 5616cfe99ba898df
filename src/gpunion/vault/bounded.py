"""A folder's vault and desk that are not waited for without end: a dead file server does not even refuse.

Progress is bounded, not time: a call may take as long as it likes while others of the same place get done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.locations import CAMPUS
from gpunion.vault.manifest import JobKey, Vault, VaultUnavailable
from gpunion.vault.shared import open_own
from gpunion.vault.storage import Opened
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.timeout_guard import Patience

Desk = TypeVar("Desk", bound=VaultDesk)

# Syncing the folders of a large checkpoint, and reading a whole vault: nothing else gets done meanwhile.
SLOW_S = {"seal": 180.0, "adopt": 180.0, "forget": 600.0, "collect_garbage": 600.0, "check_room": 600.0}


def open_own_bounded(folder: Path, mark: str, patience: Patience) -> Opened:
    """The campus's vault, where this machine shares its folder."""
    vault = patience.ask(CAMPUS, lambda: open_own(folder, mark))
    return bounded(Opened(vault, DirectoryDesk(vault)), CAMPUS, patience)


def bounded(opened: Opened, place: str, patience: Patience) -> Opened:
    return Opened(
        bounded_vault(opened.vault, place, patience),
        bounded_desk(opened.desk, place, patience),
    )


def bounded_vault(vault: Vault, place: str, patience: Patience) -> Vault:
    return cast(Vault, _BoundedVault(vault, place, patience))


def bounded_desk(desk: Desk, place: str, patience: Patience) -> Desk:
    return cast(Desk, _Bounded(desk, place, patience))


class _Bounded:
    def __init__(self, inner: Vault | VaultDesk, place: str, patience: Patience) -> None:
        self._inner = inner
        self._place = place
        self._patience = patience

    def describe(self) -> str:
        return self._inner.describe()

    def __getattr__(self, name: str) -> Any:
        """What the inner one has under this name, waited for as long as it moves."""
        call = getattr(self._inner, name)

        def carried(*arguments: Any, **more: Any) -> Any:
            work = partial(call, *arguments, **more)
            return self._patience.carry(self._place, work, SLOW_S.get(name))

        return carried


class _BoundedVault(_Bounded):
    _inner: Vault

    def keyed(self, key: JobKey) -> Vault:
        return bounded_vault(self._inner.keyed(key), self._place, self._patience)

    def waits_for_blocks(self) -> bool:
        return self._inner.waits_for_blocks()

    @contextmanager
    def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
        hold: AbstractContextManager[None] = self._inner.hold(job_id, checkpoint_id)
        self._patience.carry(self._place, hold.__enter__)
        try:
            yield
        finally:
            with suppress(VaultUnavailable):  # it goes with this process
                self._patience.carry(self._place, partial(hold.__exit__, None, None, None))
