"""The coordinator's process: start, serve, end.

Exit codes: 0 ended as asked, 1 could not start (and why), 65 would not start since the database has lost
something (a person has to decide; nothing was changed), 70 a fault nobody may go on after; start
it again, it goes on from what is committed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import structlog
import uvicorn

from gpunion import log_lines
from gpunion.coordinator.app import make_app
from gpunion.coordinator.compose import open_campus
from gpunion.coordinator.damage.loss import EXIT_DAMAGED, how_to_mend
from gpunion.coordinator.data_dir import ADDRESS_FILE, ADMIN_FILE
from gpunion.coordinator.locations.collection import keep_sweeping
from gpunion.coordinator.locations.space import keep_watching
from gpunion.coordinator.requests.lines import (
    ACCEPTED_AT_ONCE,
    WAITING_MAX,
    http_protocol,
    places_of,
    raise_file_limit,
)
from gpunion.coordinator.services import Campus
from gpunion.coordinator.settings import BadSettings, Settings
from gpunion.coordinator.usage.book import keep_writing
from gpunion.ports.database import Mend, StoreDamaged, StoreFault, StoreTaken
from gpunion.vault.trees import TreesFault
from gpunion.wire.codec import FRAME_LIMIT_BYTES

COMMAND = "gpunion coordinator"
EXIT_OK = 0
EXIT_CANNOT_START = 1
EXIT_FAULT = 70
# Requests under way get this long at the end; agents reconnect and streams resume anyway.
GRACE_S = 3
HEADERS_LIMIT = 64 * 1024
# For what waits for disks and buckets. Several nodes with all their requests under way leave some of them.
THREADS = 64

log = structlog.get_logger("gpunion.coordinator")


class CannotStart(Exception):
    """Why, and what to do about it where that is known."""

    def __init__(self, why: str, next_step: str = "", code: int = EXIT_CANNOT_START) -> None:
        super().__init__(f"{why}; {next_step}" if next_step else why)
        self.code = code
        self.why = why
        self.next_step = next_step


def serve(settings: Settings, *, new_admin_token: bool = False, mend: Mend = Mend.NOTHING) -> int:
    """Runs until SIGTERM or SIGINT; returns the exit code."""
    _configure_logs(settings.log_format)
    try:
        code = asyncio.run(_serve(settings, new_admin_token, mend))
        # All of it goes with the process. Taking it apart piece by piece would take a second, which whoever
        # starts the next one waits for.
        gc.freeze()
        return code
    except StoreTaken as error:
        raise CannotStart(
            str(error), f"stop it first, or give this one another folder: {COMMAND} --data FOLDER"
        ) from error
    except StoreDamaged as error:
        next_step = how_to_mend(error, COMMAND, settings.data_dir)
        raise CannotStart(str(error), next_step, EXIT_DAMAGED) from error
    except (StoreFault, TreesFault) as error:
        raise CannotStart(str(error), next_step_at_disk(str(error), settings.data_dir)) from error
    except BadSettings as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise why_not(error, settings.data_dir) from error


async def _serve(settings: Settings, new_admin_token: bool, mend: Mend) -> int:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "beside"))
    campus = await open_campus(settings, mend=mend)
    try:
        listener = _listen(settings)
    except OSError as error:
        await campus.store.close(term=campus.station.term)
        raise CannotStart(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            f"choose where it may listen: {COMMAND} --listen HOST:PORT",
        ) from error
    if not ip_address(listener.getsockname()[0]).is_loopback:
        log.warning("tokens_travel_in_the_clear", host=settings.host, next_step="put TLS in front")
    keyring = campus.keyring
    make = keyring.replace_admin if new_admin_token else keyring.bootstrap_admin
    token = await make(settings.data_dir)
    await keyring.bootstrap_metrics(settings.data_dir)
    if token is not None:
        print(how_to_find(token, settings.data_dir / ADMIN_FILE), flush=True)
    server = _Server(campus, listener, settings)
    writing = asyncio.create_task(campus.loop.run())
    writing.add_done_callback(partial(_exit_on_fault, settings.data_dir))
    beside = [
        asyncio.create_task(keep_sweeping(campus.trees, campus.jobs_and_held)),
        asyncio.create_task(keep_watching(campus)),
        asyncio.create_task(campus.metrics.keep_watching_lag()),
        asyncio.create_task(keep_writing(campus.usage)),
    ]
    _on_signals(server)
    await server.serve(sockets=[listener])
    for task in beside:
        task.cancel()
    campus.loop.end()
    await writing
    await campus.usage.write(all_of_it=True)
    await campus.store.close(term=campus.station.term)
    (settings.data_dir / ADDRESS_FILE).unlink(missing_ok=True)
    log.info("ended")
    return EXIT_OK


class _Server(uvicorn.Server):
    """Says where it listens once it does, and ends streams before it waits for them."""

    def __init__(self, campus: Campus, listener: socket.socket, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(campus),
                http=cast(Any, http_protocol(places_of(raise_file_limit()))),
                backlog=ACCEPTED_AT_ONCE,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                ws_max_size=FRAME_LIMIT_BYTES,
                h11_max_incomplete_event_size=HEADERS_LIMIT,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._campus = campus
        self._url = _url(listener)
        self._address_file = settings.data_dir / ADDRESS_FILE

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Ours are set by `_on_signals`; the server's own would end the process by the signal, not with 0."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            listener.listen(WAITING_MAX)
        _write_whole(self._address_file, self._url + "\n")
        log.info("listening", url=self._url, term=self._campus.station.term)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._campus.hub.close()
        await super().shutdown(sockets=sockets)


def _listen(settings: Settings) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by what is accepted. A key pressed in a notebook would wait 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def _on_signals(server: uvicorn.Server) -> None:
    """Once: end in good order. Twice: do not wait for anybody."""

    def asked() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)


def _exit_on_fault(data_dir: Path, writing: asyncio.Task[None]) -> None:
    """Crash-only: what is in memory may be wrong, what is committed is not."""
    fault = None if writing.cancelled() else writing.exception()
    if fault is None:
        return
    log.error("fault", kind=type(fault).__name__, trouble=str(fault))
    if not isinstance(fault, StoreFault):
        traceback.print_exception(fault, file=sys.stderr)  # a bug: for whoever mends it
    next_steps = (
        next_step_at_disk(str(fault), data_dir),
        "start it again, it goes on from what is committed",
    )
    print(
        "; ".join(
            filter(None, (f"{COMMAND}: ended by a fault ({type(fault).__name__}: {fault})", *next_steps))
        ),
        file=sys.stderr,
        flush=True,
    )
    os._exit(EXIT_FAULT)


def why_not(error: OSError, data_dir: Path) -> CannotStart:
    why = f"{error.filename or data_dir}: {error.strerror or error}"
    if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
        return CannotStart(why, f"name a folder that you may write: {COMMAND} --data FOLDER")
    return CannotStart(why, next_step_at_disk(why, data_dir))


def next_step_at_disk(trouble: str, data_dir: Path) -> str:
    """Where the disk is what was wrong, in whichever words the database or the system has for it."""
    said = trouble.lower()
    if any(word in said for word in ("is full", "no space left", "quota exceeded")):
        return f"make room where it keeps its data: df -h {data_dir}"
    if any(word in said for word in ("disk i/o error", "input/output error")):
        seen = f"see what the system says of the disk of {data_dir} (dmesg)"
        return f"{seen}, and start it again once that is well"
    return ""


def how_to_find(token: str, kept: Path) -> str:
    """A journal is kept, and read by others than whoever may read the file."""
    if log_lines.goes_to_journal(sys.stdout, os.environ):
        return f"admin token: kept in {kept}"
    return f"admin token (shown once, kept in {kept}): {token}"


def _write_whole(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def _configure_logs(log_format: str) -> None:
    log_lines.configure(log_format, once=True)
    # Libraries speak up only when something is wrong.
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
