"""The vault on this machine's own disk that an owner lends to the campus, and its counter for the others."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from gpunion.adapters.networks import address_now
from gpunion.agent.compose.runtime_files import AGENT_DIR
from gpunion.agent.machine.lend_disk_settings import Keeps
from gpunion.agent.settings import Settings
from gpunion.domain.passes import Keeping, why_not_admitted
from gpunion.tls import own_certificate, showing
from gpunion.vault.bounded import bounded_desk
from gpunion.vault.claim import KEEPER_FILE, claimed_by
from gpunion.vault.disk_quota import Allowance
from gpunion.vault.http.vault_server import Pace, VaultServer
from gpunion.vault.locations import Place
from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.mark import mark_of, shares
from gpunion.vault.peers import BlockServing
from gpunion.vault.storage import Opened
from gpunion.vault.stores.folder.desk import DirectoryDesk, named_after_its_run
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience

CERTIFICATE_FILE = "keeper.pem"
MARK_FILE = "keeper.mark"
STALL_S = 40.0  # of a disk that hangs: who asks waits for a minute, and is told before


class KeptHere:
    """Opened when it is first needed, and looked at again every time: a disk can be unmounted."""

    def __init__(self, keeps: Keeps, state_dir: Path, node_id: str) -> None:
        self.keeps = keeps
        self._who = f"{node_id} on {_machine()}"
        self._allowance = Allowance(keeps.directory, keeps.limit_bytes)
        self._remembered = state_dir / AGENT_DIR / MARK_FILE
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        # By their marks: the folders that other places of the campus are.
        self.others: Callable[[], Mapping[str, str]] = dict

    def opened(self) -> Opened:
        """VaultUnavailable says why not. One desk for all: it knows what is held."""
        with self._lock:
            self._check()
            if self._opened is None:
                allowance = self._allowance
                vault = DirectoryVault(self.keeps.directory, allow=allowance, freed=allowance.freed)
                self._allowance.begin_to_add_up()
                self._opened = Opened(vault, DirectoryDesk(vault, allowance.check, named_after_its_run))
            return self._opened

    def shown(self) -> dict[str, Any]:
        """Without a look at the disk, which may hang: as it was when it was last used."""
        return {
            "directory": str(self.keeps.directory),
            "limit_bytes": self.keeps.limit_bytes,
            "used_bytes": self._allowance.known_bytes,
        }

    def _check(self) -> None:
        """An empty folder where the disk is not mounted must not be taken for it: what is saved there would
        hide, or be lost."""
        known = self._remembered.read_text().strip() if self._remembered.exists() else ""
        if known:
            if not shares(self.keeps.directory, known):
                raise VaultUnavailable(
                    f"{self.keeps.directory} is not what this machine kept checkpoints in: its mark is not "
                    "there, so it is not mounted, or was emptied. Next: mount it; if it was emptied on "
                    f"purpose, remove {self._remembered}"
                )
            if other := self.others().get(known):
                raise VaultUnavailable(
                    f"{self.keeps.directory} is the place {other} already, so that a copy in both would be "
                    "one. Next: lend another directory (keeps.directory in agent.toml)"
                )
            self._check_alone()
            return
        with suppress(OSError):  # what jobs save is not for everybody on this machine to read
            self.keeps.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = mark_of(self.keeps.directory)
        if not mark:
            raise VaultUnavailable(
                f"{self.keeps.directory} cannot be written. Next: let the agent's user write there"
            )
        self._check_alone()
        self._remembered.parent.mkdir(parents=True, exist_ok=True)
        self._remembered.write_text(mark + "\n")

    def _check_alone(self) -> None:
        """A folder on a network can be lent by two machines: what is copied from one to the other would be
        one copy."""
        file = self.keeps.directory / KEEPER_FILE
        if (keeper := claimed_by(file, self._who)) not in ("", self._who):
            raise VaultUnavailable(
                f"{self.keeps.directory} is kept by {keeper} already, so that a copy on both machines would "
                "be one. Next: lend another directory (keeps.directory in agent.toml); if that machine keeps "
                f"nothing there any more, remove {file}"
            )


def kept_here(settings: Settings) -> KeptHere | None:
    if settings.keeps is None:
        return None
    return KeptHere(settings.keeps, settings.state_dir, settings.node_id)


def _machine() -> str:
    """What it is called may change with the network it is in; this does not."""
    try:
        return Path("/etc/machine-id").read_text().strip() or socket.gethostname()
    except OSError:
        return socket.gethostname()


def keeper_host(settings: Settings) -> str:
    """The address that others use, now. Empty where nobody has said it and there is no way to the
    coordinator. Takes as long as a name server does."""
    given = settings.keeps.host if settings.keeps is not None else ""
    return given or settings.data_host or address_now(settings.coordinator)


def keeper_server(
    settings: Settings,
    kept: KeptHere,
    places: Callable[[], tuple[Place, ...]],
    pace: Pace,
    host: str,
    stall_s: float = STALL_S,
) -> tuple[BlockServing, Keeping]:
    """With what others are told of it. `places`: those of the campus that lie here, with the keys that
    admissions to them are made with. OSError: the address is not this machine's, or is taken; ValueError."""
    refuse_own_name(host)
    certificate, security = _certificate(settings)
    patience = Patience(stall_s=stall_s)
    disk = f"the disk of {settings.node_id}"

    def why_not(shown: str) -> str:
        keys = [place.key for place in places() if place.key]
        if not keys:
            return f"the campus has not said yet that {settings.node_id} keeps a place of it"
        troubles = [why_not_admitted(key, shown, time.time()) for key in keys]
        return "" if "" in troubles else troubles[0]

    server = VaultServer(
        lambda: bounded_desk(patience.carry(disk, kept.opened).desk, disk, patience),
        why_not=why_not,
        pace=pace,
        host=host,
        port=kept.keeps.port,
        security=security,
    )
    shown = f"[{host}]" if ":" in host else host
    return server, Keeping(endpoint=f"https://{shown}:{kept.keeps.port}", certificate=certificate)


def refuse_own_name(host: str) -> None:
    """Many systems know their own name as an address that leads nowhere else. OSError: nobody knows it."""
    address = socket.getaddrinfo(host, None)[0][4][0]
    if address != host and host != "localhost" and ip_address(address).is_loopback:
        raise ValueError(
            f"on this machine {host} is {address}, which nobody else reaches. Next: write the address that "
            "others use as keeps.host in agent.toml"
        )


def _certificate(settings: Settings) -> tuple[str, ssl.SSLContext]:
    folder = settings.state_dir / AGENT_DIR
    os.makedirs(folder, mode=0o700, exist_ok=True)
    file = folder / CERTIFICATE_FILE
    try:
        return own_certificate(file), showing(file)
    except (ValueError, ssl.SSLError) as error:
        raise ValueError(f"{file} is damaged. Next: remove it; another certificate is made then") from error
